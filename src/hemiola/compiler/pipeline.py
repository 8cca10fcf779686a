"""A pass and a pipeline: how passes are run, one after another, with what each one did."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from hemiola.compiler.options import CompileOptions
from hemiola.errors import CompileError
from hemiola.ir.chunk_dag import ChunkDag
from hemiola.ir.instruction_dag import InstructionDag
from hemiola.ir.plan import Plan

Level = ChunkDag | InstructionDag | Plan


class Pass(Protocol):
    """One step of the compiler: valid IR in, valid IR out, with the same meaning.

    Each pass is a frozen dataclass in the file of its name; its docstring says before -> after.
    """

    @property
    def name(self) -> str:
        """The name on the command line."""
        ...

    def apply(self, level: Any, options: CompileOptions) -> Level:
        """Do it."""
        ...

    def skip(self, level: Any, options: CompileOptions) -> Level:
        """What stands in its place when it is turned off; raises where nothing can."""
        ...


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass did."""

    name: str
    seconds: float
    rows: int
    """Operations, instructions or steps after it."""
    fused: int | None
    """Instructions that both receive and send after it; None above the InstructionDag."""
    waits: int | None
    """Dependencies after it; None before they are inserted."""
    disabled: bool = False
    left_apart: int = 0
    """Messages that could have been fused had they fewer chunks than there are slots."""


def run_passes(
    passes: Iterable[Pass], level: Level, options: CompileOptions
) -> tuple[Level, tuple[PassRecord, ...]]:
    """Run the passes in order; what comes out, and what each did."""
    records = []
    for one in passes:
        disabled = one.name in options.disabled
        begin = time.process_time()
        level = (one.skip if disabled else one.apply)(level, options)
        records.append(_record(one.name, time.process_time() - begin, level, disabled))
    return level, tuple(records)


def check_disabled(passes: Iterable[Pass], options: CompileOptions) -> None:
    """Raise when a pass that is to be left out does not exist."""
    names = [one.name for one in passes]
    unknown = sorted(options.disabled - set(names))
    if unknown:
        raise CompileError(f"there is no pass '{unknown[0]}' to leave out; the passes are {', '.join(names)}")


def refuse_skip(name: str, what: str) -> CompileError:
    """The error for a pass without which there is no plan."""
    return CompileError(f"{name} cannot be left out: {what}")


def _record(name: str, seconds: float, level: Level, disabled: bool) -> PassRecord:
    if isinstance(level, ChunkDag):
        return PassRecord(name, seconds, len(level.operations), None, None, disabled)
    if isinstance(level, InstructionDag):
        waits = None if level.waits_on is None else len(level.waits_on)
        rows, fused = len(level.instructions), level.num_fused
        return PassRecord(name, seconds, rows, fused, waits, disabled, level.left_apart)
    return PassRecord(name, seconds, level.num_steps, None, len(level.dependencies), disabled)
