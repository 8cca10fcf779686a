"""Run an MSCCLang script and collect the programs that it records."""

from __future__ import annotations

import linecache
import runpy
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from hemiola.errors import HemiolaError, ScriptError
from hemiola.language.msccl.modules import OFFERED, is_offered_family, offered_modules
from hemiola.language.msccl.program import ENTERED, MSCCLProgram
from hemiola.language.program import Program

_ONE_AT_A_TIME = threading.RLock()
"""A script sees ``sys.argv``, ``sys.path`` and ``sys.modules``, of which a process has only one."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One program of a script."""

    program: Program
    disabled_passes: frozenset[str]
    """Passes that the script turns off: "fuse" for ``instr_fusion=False``."""
    notes: tuple[str, ...]
    """Where this differs from what the script's arguments say, for the person who runs it."""


@dataclass(frozen=True, slots=True)
class MscclScript:
    """What a script recorded."""

    path: str
    programs: tuple[Recorded, ...]
    """At least one, in the order of the ``with`` blocks: those that called ``XML()``, or all if none did."""


def run_script(path: str | Path, args: Sequence[str] = ()) -> MscclScript:
    """Run a script as ``python path args`` would, with ``msccl`` offered from here.

    What it prints goes to stderr. A script that fails, records nothing, or records a program that does not do
    what its collective asks is refused with its file and line and the reason.
    """
    script = Path(path)
    if not script.is_file():
        raise ScriptError(f"{script}: there is no such file; give the path of an MSCCLang script")
    with _ONE_AT_A_TIME:
        return copy_context().run(_run, script, list(args))


def _run(script: Path, args: list[str]) -> MscclScript:
    entered: list[MSCCLProgram] = []
    ENTERED.set(entered)
    with _as_main(script, args), offered_modules(), redirect_stdout(sys.stderr):
        _execute(script)
        wanted = [program for program in entered if program.wanted] or entered
        if not wanted:
            raise ScriptError(
                f"{script}: the script ends without a program; it must enter 'with MSCCLProgram(...):' "
                "when it is run with these arguments"
            )
        return MscclScript(str(script), tuple(_finish(script, program) for program in wanted))


def _execute(script: Path) -> None:
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise _refusal(script, end) from end
    except Exception as error:
        raise _refusal(script, error) from error


def _finish(script: Path, recorded: MSCCLProgram) -> Recorded:
    try:
        program = recorded.finish()
    except Exception as error:
        raise _refusal(script, error, recorded.where) from error
    disabled = frozenset() if recorded.instr_fusion else frozenset({"fuse"})
    return Recorded(program, disabled, tuple(_notes(recorded)))


def _notes(recorded: MSCCLProgram) -> Iterator[str]:
    if recorded.instances > 1 and (not recorded.interleaved_replication or recorded.replication_policy):
        yield "the asked way of replication is not needed: instances divide the chunks as the collective requires"
    if bool(recorded.collective.inplace) != recorded.native.collective.in_place:
        given, made = ("in", "out of") if recorded.collective.inplace else ("out of", "in")
        yield f"the collective says {given} place, but its buffers say {made} place, and that counts"


@contextmanager
def _as_main(script: Path, args: list[str]) -> Iterator[None]:
    """``sys`` as a script run by Python sees it; modules from beside the script are forgotten afterwards."""
    argv, path, modules = sys.argv, sys.path[:], set(sys.modules)
    sys.argv = [str(script), *args]
    sys.path.insert(0, str(script.parent.resolve()))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file and _is_users(script, file):
                del sys.modules[name]


def _refusal(script: Path, error: BaseException, where: tuple[str, int] | None = None) -> HemiolaError:
    """The error to raise for what went wrong in a script, with its place."""
    if isinstance(error, SyntaxError):
        return ScriptError(f"{error.filename}:{error.lineno}: {error.msg}; the script is not valid Python")
    place = _place(script, error.__traceback__) or where or (str(script), 0)
    prefix = f"{place[0]}:{place[1]}: " if place[1] else f"{place[0]}: "
    if isinstance(error, HemiolaError):
        return type(error)(prefix + str(error))
    return ScriptError(prefix + _reason(error, place))


def _reason(error: BaseException, place: tuple[str, int]) -> str:
    if isinstance(error, SystemExit):
        code = error.code
        if isinstance(code, int):
            return f"the script ends with exit code {code}; what it printed says why"
        return f"the script ends with: {code}"
    if isinstance(error, ImportError) and is_offered_family(error.name or ""):
        return f"{error}; of msccl, only the language is offered here: {', '.join(OFFERED)}"
    if isinstance(error, AssertionError) and not str(error):
        return f"the script's own assertion fails: {linecache.getline(*place).strip()}"
    return f"the script fails with {type(error).__name__}: {error}"


def _place(script: Path, trace: TracebackType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame that is the user's own."""
    found = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if _is_users(script, file):
            found = (file, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _is_users(script: Path, file: str) -> bool:
    """Whether a file is the script or lies beside or below it, and is no installed package."""
    place = Path(file).resolve()
    if place == script.resolve():
        return True
    installed = [Path(__file__).parents[2], *(Path(sysconfig.get_path(p)) for p in ("stdlib", "purelib"))]
    return place.is_relative_to(script.resolve().parent) and not any(
        place.is_relative_to(folder.resolve()) for folder in installed
    )
