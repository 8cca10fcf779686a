"""Entries: the functions of a user's script that build programs, found and run by file name.

    from hemiola import AllGather, Program, program

    @program
    def gather(*, ranks: int = 4) -> Program:
        ...

``load_program("gather.py", ["--ranks=8"])`` gives the recorded program.
"""

from __future__ import annotations

import runpy
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, TypeVar

from hemiola.errors import HemiolaError, ProgramError, ScriptError
from hemiola.language.parameters import parameter_readers, read_parameters, split_words
from hemiola.language.program import Program

Build = TypeVar("Build", bound=Callable[..., Program])

_MARK = "__hemiola_entry__"
_MODULE = "__hemiola_program__"
"""The ``__name__`` that a script sees, so that what it does as ``__main__`` is left out."""


def program(build: Build) -> Build:
    """Mark a function as an entry: keyword-only typed parameters in, a recorded Program out."""
    try:
        parameter_readers(build)
    except (NameError, TypeError) as error:
        raise ProgramError(f"{build.__name__}: its parameters' types cannot be read: {error}") from None
    setattr(build, _MARK, True)
    return build


@dataclass(frozen=True, slots=True)
class Entry:
    """One marked function of a script."""

    path: Path
    build: Callable[..., Program]

    @property
    def has_places(self) -> bool:
        """Whether a parameter ``in_place`` chooses between the two forms."""
        return "in_place" in signature(self.build).parameters

    def run(self, arguments: dict[str, str]) -> Program:
        """The program for these parameters; what the script prints goes to stderr."""
        name = self.build.__name__
        with _as_user(self.path):
            made: Any = self.build(**read_parameters(self.build, arguments))
        if not isinstance(made, Program):
            raise ScriptError(
                f"{self.path}: {name} must return the Program that it recorded, but returned {type(made).__name__}"
            )
        return made


def load_program(path: str | Path, args: Sequence[str] = (), name: str | None = None) -> Program:
    """The program that an entry of a script builds for ``args`` such as ``--ranks=8``."""
    return load_entry(path, name).run(split_words(args))


def load_entry(path: str | Path, name: str | None = None) -> Entry:
    """The entry ``name`` of a script, or its only one."""
    script = Path(path)
    if not script.is_file():
        raise ScriptError(f"{script}: there is no such script; give the path of a Python file")
    with _as_user(script):
        found = runpy.run_path(str(script), run_name=_MODULE)
    entries = {
        key: value
        for key, value in found.items()
        if isinstance(value, FunctionType) and value.__module__ == _MODULE and hasattr(value, _MARK)
    }
    return Entry(script, _choose(script, entries, name))


def _choose(script: Path, entries: dict[str, Any], name: str | None) -> Callable[..., Program]:
    known = ", ".join(entries)
    if not entries:
        raise ScriptError(
            f"{script}: no function is marked as a program; write @program (from hemiola import program) "
            "above the one that returns a Program, or give --msccl for an MSCCLang script"
        )
    if name is None and len(entries) > 1:
        raise ScriptError(f"{script}: there are several programs: {known}; choose one with --name")
    chosen = next(iter(entries)) if name is None else name
    if chosen not in entries:
        raise ScriptError(f"{script}: there is no program '{chosen}'; there is {known}")
    build: Callable[..., Program] = entries[chosen]
    return build


@contextmanager
def _as_user(script: Path) -> Iterator[None]:
    """Run a user's code: imports from beside the script, stdout to stderr, errors with the user's line."""
    path = sys.path[:]
    sys.path.insert(0, str(script.parent.resolve()))
    try:
        with redirect_stdout(sys.stderr):
            yield
    except SystemExit as error:
        raise ScriptError(f"{_place(script, error)}the script exits with {error.code!r}") from None
    except SyntaxError as error:
        raise ScriptError(f"{error.filename}:{error.lineno}: {error.msg}; this is not valid Python") from None
    except HemiolaError as error:
        raise type(error)(f"{_place(script, error)}{error}") from error
    except Exception as error:
        reason = ": ".join(filter(None, (type(error).__name__, str(error))))
        raise ScriptError(f"{_place(script, error)}the script fails with {reason}") from error
    finally:
        sys.path[:] = path


def _place(script: Path, error: BaseException) -> str:
    """``file.py:12: `` for the innermost line that is the user's own; "" when there is none."""
    trace: TracebackType | None = error.__traceback__
    found = ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file == script or _lies_beside(script, file.resolve()):
            found = f"{file}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return found


def _lies_beside(script: Path, file: Path) -> bool:
    """Whether a file lies beside or below the script and is no installed package."""
    installed = [Path(__file__).parents[1], *(Path(sysconfig.get_path(p)) for p in ("stdlib", "purelib"))]
    return file.is_relative_to(script.parent.resolve()) and not any(
        file.is_relative_to(folder.resolve()) for folder in installed
    )
