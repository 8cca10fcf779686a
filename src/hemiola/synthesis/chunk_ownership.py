"""chunk_ownership: which chunks every device holds before and after each step of a program, for any factors.

This follows a program that is known to be valid, by ranges of chunks instead of matrices: what a device holds is a sorted
run list, whoever contributed. It is what carrying a program out needs to know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from hemiola.collectives import CollectiveKind
from hemiola.errors import ReductionError
from hemiola.synthesis.groups import Group, grouping_of, groups_of
from hemiola.synthesis.program import Instruction, ReductionProgram

Rows = tuple[int, ...]
"""Chunks, in order."""


@dataclass(frozen=True, slots=True)
class GroupStep:
    """One group of one step: its members and the chunks that each holds before and after."""

    instruction: Instruction
    members: Group
    before: tuple[Rows, ...]
    after: tuple[Rows, ...]


def start_rows(request: CollectiveKind, num_devices: int) -> list[Rows]:
    """What devices hold before the first step."""
    everything = tuple(range(num_devices))
    if request is CollectiveKind.ALLGATHER:
        return [(device,) for device in range(num_devices)]
    if request is CollectiveKind.BROADCAST:
        return [everything, *([()] * (num_devices - 1))]
    return [everything] * num_devices


def group_steps(
    program: ReductionProgram, factors: tuple[int, ...], request: CollectiveKind = CollectiveKind.ALLREDUCE
) -> Iterator[list[GroupStep]]:
    """The groups of every step."""
    if len(factors) != program.depth or min(factors, default=0) < 2:
        raise ReductionError(
            f"a program over {program.depth} factors needs as many, each 2 or more, but has {list(factors)}"
        )
    rows = start_rows(request, prod(factors))
    for instruction in program:
        groups = groups_of(grouping_of(instruction, program.depth), factors)
        steps = [_step(instruction, group, [rows[member] for member in group]) for group in groups]
        for step in steps:
            for member, held in zip(step.members, step.after, strict=True):
                rows[member] = held
        yield steps


def _step(instruction: Instruction, members: Group, before: list[Rows]) -> GroupStep:
    size, first = len(members), before[0]
    match instruction.collective:
        case CollectiveKind.ALLREDUCE | CollectiveKind.BROADCAST:
            after = [first] * size
        case CollectiveKind.REDUCE:
            after = [first, *([()] * (size - 1))]
        case CollectiveKind.ALLGATHER:
            after = [tuple(sorted(row for held in before for row in held))] * size
        case CollectiveKind.REDUCESCATTER:
            if len(first) % size:
                raise ReductionError(f"{instruction}: {len(first)} chunks cannot be cut among {size} devices")
            share = len(first) // size
            after = [first[member * share : (member + 1) * share] for member in range(size)]
    return GroupStep(instruction, members, tuple(before), tuple(after))
