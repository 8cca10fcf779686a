"""A folder of plans that our own runtime reads: one for each window and each form of call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hemiola.compiler.deliver import deliver
from hemiola.compiler.options import CompileOptions
from hemiola.errors import FormatError
from hemiola.ir.plan import Plan
from hemiola.ir.targets import TARGETS
from hemiola.tuning.tune import TunedWindow, Tuning


def check_folder(folder: Path, kind: str) -> None:
    """Make a folder for plans of a collective; one that has such plans is refused."""
    _make(folder)
    old = sorted(folder.glob(f"{kind}-*.plan"))
    if old:
        raise FormatError(
            f"{folder}: it has plans for {kind} already, such as {old[0].name}; remove them, or give another folder"
        )


def write_plans(tuning: Tuning, folder: Path) -> list[Path]:
    """A plan file for each window and each form of call, proven again after writing; nothing for the runtime's own choices."""
    kind = tuning.request.kind
    check_folder(folder, kind)
    written = []
    for number, window in enumerate(tuning.windows):
        candidate = window.chosen.candidate
        if candidate is None:
            continue
        for in_place in (False, True) if kind.facts.can_be_in_place else (False,):
            place = "inplace" if in_place else "outofplace"
            path = folder / f"{kind}-{number:02d}-{candidate.algorithm}.{place}.plan"
            plan = _within(tuning.space.proven_plan(candidate, in_place=in_place), window)
            deliver(plan, path, TARGETS["plan"], slots=CompileOptions().slots)
            written.append(path)
    return written


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"{folder}: the folder cannot be made: {error.strerror}") from None


def _within(plan: Plan, window: TunedWindow) -> Plan:
    return replace(plan, min_bytes=window.min_bytes, max_bytes=window.max_bytes)
