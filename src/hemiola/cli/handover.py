"""Handover: the files of one command get their names together, after each has been read back and proven."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from hemiola.compiler.deliver import deliver
from hemiola.errors import FormatError, HemiolaError
from hemiola.ir.plan import Plan
from hemiola.ir.targets import Target


def hand_over(plans: Mapping[Path, Plan], target: Target, slots: int) -> None:
    """Write all plans or none; what is in the files is what was proven."""
    places = {path: _place_of(path) for path in plans}
    with ExitStack() as stack:
        waiting = []
        for path, plan in plans.items():
            temporary = places[path].with_name(f".{path.name[:64]}.{os.getpid()}.{secrets.token_hex(4)}")
            stack.callback(temporary.unlink, missing_ok=True)
            _deliver_as(path, plan, temporary, target, slots)
            waiting.append((temporary, places[path]))
        for temporary, place in waiting:
            os.replace(temporary, place)


def _place_of(path: Path) -> Path:
    """Where the file really goes; raises FormatError where no file can be."""
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise FormatError(f"{path}: this is a folder; give the name of a file in it")
    if place.exists() and not place.is_file():
        raise FormatError(f"{path}: this is no plain file, and would be replaced by one")
    if not place.parent.is_dir():
        raise FormatError(f"{path}: there is no folder {path.parent}; make it first")
    return place


def _deliver_as(path: Path, plan: Plan, temporary: Path, target: Target, slots: int) -> None:
    """Deliver under a name of its own; errors speak of ``path``."""
    try:
        deliver(plan, temporary, target, slots=slots)
    except OSError as error:
        raise FormatError(f"{path}: cannot be written: {error.strerror}") from None
    except HemiolaError as error:
        raise type(error)(str(error).replace(str(temporary), str(path))) from None
