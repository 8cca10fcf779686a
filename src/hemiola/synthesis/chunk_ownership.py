"""chunk_ownership: which chunks every device holds before and after each step of a program, for any factors.

This follows a program of a table by chunks instead of matrices: what a device holds, whoever contributed. It is what carrying
a program out needs to know. A table is made for factors of two, and a few of its programs hold only where some factors are
equal. Over (16, 2, 2), for example,

    reducescatter(2, InsideGroup); reducescatter(2, Parallel(1)); allreduce(1, Parallel(0)); allgather(2, InsideGroup)

leaves device 2 with chunks 16 to 31 and 48 to 63, and not with its own chunk 2; over (2, 2, 2) it leaves 2, 3, 6 and 7.
So the rules are checked here once more, for the factors at hand.
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
    """The groups of every step; an error where a step may not run, or the request is not fulfilled at the end."""
    if len(factors) != program.depth or min(factors, default=0) < 2:
        raise ReductionError(
            f"a program over {program.depth} factors needs as many, each 2 or more, but has {list(factors)}"
        )
    rows = start_rows(request, prod(factors))
    for instruction in program:
        groups = groups_of(grouping_of(instruction, program.depth), factors)
        before = [[rows[member] for member in group] for group in groups]
        if not all(_may_run(instruction.collective, held) for held in before):
            raise ReductionError(
                f"{instruction} may not run over factors {list(factors)}: the members of a group hold other chunks than it needs;"
                " take a program that was synthesized for these factors"
            )
        steps = [_step(instruction, group, held) for group, held in zip(groups, before, strict=True)]
        for step in steps:
            for member, held in zip(step.members, step.after, strict=True):
                rows[member] = held
        yield steps
    _check_end(program, factors, request, rows)


def holds_for(program: ReductionProgram, factors: tuple[int, ...], request: CollectiveKind) -> bool:
    """Whether a program of a table holds for these factors too."""
    try:
        for _ in group_steps(program, factors, request):
            pass
    except ReductionError:
        return False
    return True


def _may_run(collective: CollectiveKind, before: list[Rows]) -> bool:
    """The rules of ``semantics`` for chunks."""
    first = before[0]
    match collective:
        case CollectiveKind.BROADCAST:
            return bool(first) and all(held == first or set(held) <= set(first) for held in before)
        case CollectiveKind.ALLGATHER:
            gathered = {row for held in before for row in held}
            return bool(first) and len(gathered) == len(before) * len(first) == sum(map(len, before))
        case CollectiveKind.REDUCESCATTER if len(first) % len(before):
            return False
    return bool(first) and all(held == first for held in before)


def _check_end(
    program: ReductionProgram, factors: tuple[int, ...], request: CollectiveKind, rows: list[Rows]
) -> None:
    everything = tuple(range(len(rows)))
    for device, held in enumerate(rows):
        wanted: Rows = everything
        if request is CollectiveKind.REDUCESCATTER:
            wanted = (device,)
        elif request is CollectiveKind.REDUCE and device:
            return
        if held != wanted and not set(held) >= set(wanted):
            raise ReductionError(
                f"{program} is no {request.value} over factors {list(factors)}: device {device} ends without chunk"
                f" {min(set(wanted) - set(held))}; take a program that was synthesized for these factors"
            )


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
            share = len(first) // size
            after = [first[member * share : (member + 1) * share] for member in range(size)]
    return GroupStep(instruction, members, tuple(before), tuple(after))
