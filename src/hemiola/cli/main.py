"""The command ``hemiola``: its verbs, loaded when they are used, and what its exit codes mean.

0 is success, 1 is a no (a plan that is not correct, a file that would not be used), 2 is bad input, with one
message on stderr.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

from hemiola import __version__
from hemiola._core import keep_freed_memory
from hemiola.errors import HemiolaError, VerificationError

NO, BAD_INPUT, INTERRUPTED = 1, 2, 130

VERBS: Mapping[str, str] = {
    "init": "Write a commented job, from questions or from options.",
    "plan": "Answer a whole job: degrees, placement, collectives, gains.",
    "compile": "Compile a program or a library algorithm into a proven plan.",
    "algorithms": "List the library's algorithms with what they cost.",
    "verify": "Prove a plan file right, or say what is wrong with it.",
    "explain": "Say whether a runtime would use a file, and if not, why.",
    "show": "Print a plan so that a person can read it.",
    "simulate": "Predict a plan's time on a system, and where it goes.",
    "run": "Run a plan on this machine on random data and check every element.",
    "systems": "List machines, and make one from what a cluster can tell.",
    "report": "Make the page of a plan again, from its folder.",
    "place": "Rank where the axes of a job go on a system, by predicted time.",
    "bench": "Time a collective beside Gloo and MPI, side by side in one run.",
    "lab": "Build a hierarchical network on this machine, and run in it.",
    "calibrate": "Fit a system's latencies and bandwidths to measured times.",
    "synthesize": "Find the best programs for a reduction over axes of a placement.",
    "fuse": "Fuse operators and merge gradients of a training step.",
    "estimator": "Measure, train and judge the model of fused operators.",
    "tune": "Choose the best plan for every size of a collective on a system.",
}
"""Verb to its line in the help. The command is ``command`` in the module of that name."""


class Verbs(click.Group):
    """A group that imports a verb only when it is called, and ends with the exit codes above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order in which they are used."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a verb."""
        if name not in VERBS:
            return None
        keep_freed_memory()
        gc.disable()  # what modules are made of is never garbage, so looking for some would be in vain, now and later
        try:
            _import_numpy_alone()
            command = import_module(f"hemiola.cli.{name}").command
        finally:
            gc.freeze()
            gc.enable()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb of a call; a mistyped one gets the verb that is meant."""
        near = get_close_matches(args[0], VERBS, n=1) if args and args[0] not in VERBS else []
        if near:
            raise click.UsageError(f"There is no verb {args[0][:40]!r}; did you mean {near[0]}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run, and exit."""
        words = kwargs.get("args", args[0] if args else None)
        as_json = "--json" in (sys.argv[1:] if words is None else list(words))
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except VerificationError as error:
            _fail(str(error), NO, as_json)
        except HemiolaError as error:
            _fail(str(error), BAD_INPUT, as_json)
        except click.ClickException as error:
            _fail(_describe(error), BAD_INPUT, as_json)
        except click.Abort:
            _fail("interrupted", INTERRUPTED, as_json)
        except MemoryError:
            _fail(
                "this needs more memory than there is; use fewer ranks, chunks or instances",
                BAD_INPUT,
                as_json,
            )
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}", BAD_INPUT, as_json)
        sys.exit(code if isinstance(code, int) else 0)


def _import_numpy_alone() -> None:
    """Import NumPy without the threads of its BLAS, which no verb multiplies matrices with.

    They would spin for a while, and cost as much processor time as the rest of NumPy. The environment is left as it was,
    for whatever a verb starts.
    """
    setting = "OPENBLAS_NUM_THREADS"
    if setting in os.environ:
        return
    os.environ[setting] = "1"
    try:
        import_module("numpy")
    finally:
        del os.environ[setting]


def _fail(message: str, code: int, as_json: bool) -> NoReturn:
    """Say what is wrong on stderr, and with --json also as a document on stdout."""
    if as_json:
        click.echo(json.dumps({"error": message, "exit_code": code}, indent=2, ensure_ascii=False))
    click.echo(f"hemiola: {message}", err=True)
    sys.exit(code)


def _describe(error: click.ClickException) -> str:
    """A mistake in the words of the command line, and where the help is."""
    message = " ".join(error.format_message().split())
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return message
    if isinstance(error, click.NoSuchOption) and error.ctx.command.name in ("compile", "run"):
        return f"There is no option {error.option_name}; parameters of the program come after --, as in -- --in-place"
    return f"{message.rstrip('.')}; see {error.ctx.command_path} --help"


@click.group(cls=Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="hemiola %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Placement, collectives and fusion of a training job, planned together.

    Every verb takes --json, and says more with --help.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
