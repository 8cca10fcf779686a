"""hemiola explain: would a runtime use this file, and if not, which rule stands in the way."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from hemiola.cli import options
from hemiola.cli.output import print_json, print_wrapped
from hemiola.ir.formats import is_native, read_plan
from hemiola.ir.selection import (
    DTYPE_BYTES,
    OPERATORS,
    RuleResult,
    Runtime,
    Selection,
    SelectionRequest,
    explain_selection,
)
from hemiola.ir.targets import as_written
from hemiola.ir.verify_sizes import verify_sizes

_ABOUT_THE_CALL = {"data type": "--dtype", "operator known": "--op"}
"""Rules that judge the question and not the file."""


@click.command("explain")
@click.argument("file", metavar="FILE")
@click.option("--runtime", type=click.Choice([one.value for one in Runtime]), required=True)
@click.option(
    "--bytes",
    "num_bytes",
    type=options.size,
    metavar="SIZE",
    required=True,
    help="The size that tests print.",
)
@click.option("--dtype", default="fp32", show_default=True, help=f"{', '.join(DTYPE_BYTES)}.")
@click.option("--op", default="sum", show_default=True, help=f"{', '.join(OPERATORS)}.")
@click.option("--inplace", "--in-place", is_flag=True, help="The call's two buffers are the same.")
@click.option("--ranks", type=click.IntRange(1), required=True, help="Ranks of the communicator.")
@click.option(
    "--env", "pairs", multiple=True, metavar="KEY=VALUE", help="Set over this process's environment."
)
@click.option(
    "--forced-only", is_flag=True, help="rccl: a machine where MSCCL is off unless forced (no MI300X)."
)
@click.option(
    "--channels", type=click.IntRange(1), metavar="N",
    help="rccl: channels of the communicator, as NCCL_DEBUG=INFO prints them.",
)  # fmt: skip
@click.option("--single-process", is_flag=True, help="rccl: one process drives several ranks.")
@options.root
@options.as_json
def command(
    file: str, runtime: str, num_bytes: int, dtype: str, op: str, inplace: bool, ranks: int,
    pairs: tuple[str, ...], forced_only: bool, channels: int | None, single_process: bool, root: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Say whether a runtime would use FILE for a call, rule by rule, and which variable is in the way.

    A runtime that does not like a file falls back in silence. Exits with 0 when the file would be used and
    with 1 when not. Where the runtime would use it and hang at that size, the output says so.
    """
    request = SelectionRequest(
        runtime=Runtime(runtime), num_ranks=ranks, bytes=num_bytes, dtype=dtype, op=op, in_place=inplace,
        environment={**os.environ, **_read_pairs(pairs)}, on_by_default=not forced_only,
        single_process=single_process, num_channels=channels,
    )  # fmt: skip
    plan = read_plan(file, root=root)
    if is_native(file):
        plan = as_written(plan, request.runtime.target)
    selection = explain_selection(plan, request)
    _check_call(selection.rules)
    replayed = (rule for rule in selection.rules if rule.name not in _ABOUT_THE_CALL)
    rules = (_format_rule(file, request.runtime), *replayed)
    selection = Selection(all(rule.passed for rule in rules), rules)
    sized = verify_sizes(plan, runtime)
    hangs = selection.used and sized.hangs_at(num_bytes)
    if as_json:
        print_json({"used": selection.used, "hangs": hangs, "rules": [_fields(rule) for rule in rules]})
    else:
        _print(file, runtime, selection)
        if hangs:
            click.echo(
                f"and would HANG: it does from {sized.hangs_from_bytes} bytes on (hemiola verify --runtime {runtime})"
            )
    return 0 if selection.used else 1


def _read_pairs(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(
                f"'{pair}' is not KEY=VALUE, such as NCCL_ALGO=MSCCL", param_hint="--env"
            )
        found[key] = value
    return found


def _format_rule(file: str, runtime: Runtime) -> RuleResult:
    native = is_native(file)
    needed = f"MSCCL XML; write it with --target {runtime.target.name}" if native else "MSCCL XML"
    return RuleResult("format", not native, "a native plan file" if native else "MSCCL XML", needed)


def _check_call(rules: Sequence[RuleResult]) -> None:
    """Raise for a data type or an operator that no runtime has: that is bad input, not a no."""
    for rule in rules:
        if rule.name in _ABOUT_THE_CALL and not rule.passed:
            raise click.BadParameter(
                f"'{rule.found}' is not {rule.needed}", param_hint=_ABOUT_THE_CALL[rule.name]
            )


def _fields(rule: RuleResult) -> dict[str, object]:
    return {
        "name": rule.name,
        "passed": rule.passed,
        "found": rule.found,
        "needed": rule.needed,
        "variable": rule.variable or None,
    }


def _print(file: str, runtime: str, selection: Selection) -> None:
    click.echo(f"{file}: {runtime} would {'use it' if selection.used else 'NOT use it'}")
    width = max(len(rule.name) for rule in selection.rules)
    for rule in selection.rules:
        found = f"{rule.variable} {rule.found}" if rule.variable else rule.found
        print_wrapped(
            f"  {'ok' if rule.passed else 'NO'}  {rule.name:<{width}}  ", f"{found}; needed: {rule.needed}"
        )
    if selection.obstacles:
        click.echo("in the way: " + ", ".join(rule.variable or rule.name for rule in selection.obstacles))
