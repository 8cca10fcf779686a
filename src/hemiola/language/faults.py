"""The mistakes of a chunk program in words: what was expected, what was found, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hemiola._core import BrokenPromise, TraceFault
from hemiola.collectives import Buffer, Contribution, Meaning
from hemiola.errors import (
    ChunkIndexError,
    CountError,
    DoubleCountError,
    PostconditionError,
    ProgramError,
    StaleReferenceError,
    UninitializedChunkError,
)

if TYPE_CHECKING:
    from hemiola.language.chunk import Chunk
    from hemiola.language.program import Program


def explain_fault(
    program: Program, code: int, target: str, count: int, source: Chunk | None = None
) -> ProgramError:
    """The error for a code that the trace returned for an operation on ``target``."""
    fault = program.last_fault
    where = f"{program.buffers[fault.buffer]}[{fault.index}] of rank {fault.rank}"
    writer = f" at {program.lines[fault.line - 1]}" if fault.line else ""
    if code == TraceFault.STALE:
        return StaleReferenceError(
            f"{where} was overwritten{writer} after this reference was taken; use the reference that the "
            "overwriting copy or reduce returned, or take a new one with chunk()"
        )
    if code == TraceFault.UNINITIALIZED:
        return UninitializedChunkError(
            f"{where} is read, but nothing has been written there yet; copy something to it first, "
            "or check the rank, the buffer and the index"
        )
    if code == TraceFault.RANK:
        return ChunkIndexError(
            f"rank {fault.index} does not exist: {program.name} has ranks 0 to {program.num_ranks - 1}"
        )
    if code == TraceFault.INDEX:
        return _explain_index(program, target, count)
    if code == TraceFault.COUNT:
        return CountError(f"{target} is asked for with count {count}; a reference has at least one chunk")
    if code == TraceFault.DOUBLE_COUNT:
        return DoubleCountError(
            f"{source!r} cannot be reduced into {target}: the contribution of rank {fault.origin_rank} (input[{fault.origin_index}]) "
            f"is in both and would be counted twice in {where}; reduce each contribution once"
        )
    if code == TraceFault.OVERLAP:
        return ProgramError(
            f"{source!r} and {target} overlap without being the same chunks, so the result would depend on "
            "the order of copying; go through a scratch buffer"
        )
    return ProgramError(f"{program.name} has more operations than a plan can number; make it smaller")


def _explain_index(program: Program, target: str, count: int) -> ChunkIndexError:
    fault = program.last_fault
    buffer = program.buffers[fault.buffer]
    asked = f"{target}" if count == 1 else f"{target} with count {count}"
    if fault.buffer >= Buffer.SCRATCH:
        return ChunkIndexError(f"{asked} is outside of what a scratch buffer can have; use a smaller index")
    held = f"chunks 0 to {fault.size - 1}" if fault.size else "no chunks"
    return ChunkIndexError(
        f"{asked} is outside its buffer: the {buffer} of rank {fault.rank} has {held} "
        f"in {program.collective.kind} with chunks={program.collective.chunks}; "
        "use a smaller index or more chunks"
    )


def explain_postcondition(program: Program, meaning: Meaning, broken: BrokenPromise) -> PostconditionError:
    """The error for a promise that does not hold at the end."""
    promise = meaning.promised[broken.row]
    rank, index = int(promise["rank"]), int(promise["index"]) + broken.offset
    chunk = f"{program.buffers[int(promise['buffer'])]}[{index}] of rank {rank}"
    wanted, has = meaning.contributions(broken.row, broken.offset), frozenset(broken.found or ())
    promised = f"{program.collective.kind} promises {_describe(wanted)} there"
    if broken.garbage:
        return PostconditionError(f"{program.name} ends without writing {chunk}; {promised}")
    return PostconditionError(
        f"{program.name} leaves {_describe(has)} in {chunk}; {promised}{_difference(wanted, has)}"
    )


def _difference(wanted: frozenset[Contribution], found: frozenset[Contribution]) -> str:
    parts = []
    if wanted - found:
        parts.append(f"missing is {_describe(wanted - found)}")
    if found - wanted:
        parts.append(f"too much is {_describe(found - wanted)}")
    return "".join(f"; {part}" for part in parts)


def _describe(contributions: frozenset[Contribution]) -> str:
    """``input[2] of rank 1``, ``the sum of input[2] over ranks 0-3``, or a short list."""
    indices = {index for _, index in contributions}
    ranks = sorted(rank for rank, _ in contributions)
    if len(contributions) == 1:
        return f"input[{indices.pop()}] of rank {ranks[0]}"
    if len(indices) == 1:
        return f"the sum of input[{indices.pop()}] over ranks {_spans(ranks)}"
    names = [f"input[{index}] of rank {rank}" for rank, index in sorted(contributions)[:4]]
    more = len(contributions) - 4
    return "the sum of " + ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _spans(numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] + 1 == number:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in spans]
    return ", ".join(texts[:8]) + (", ..." if len(texts) > 8 else "")
