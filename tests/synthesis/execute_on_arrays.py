"""execute: carry a program out on arrays in memory, and see whether the sums are right.

Nothing here knows matrices of bits: every device holds numbers, or nothing, for each chunk, and a collective does to a
group what an MPI library would do.
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from hemiola.collectives import CollectiveKind
from hemiola.synthesis.chunk_ownership import GroupStep, group_steps
from hemiola.synthesis.program import ReductionProgram

Numbers = npt.NDArray[np.int64]
Held = list[dict[int, Numbers]]
"""For each device, its numbers for every chunk that it holds."""


def execute(
    program: ReductionProgram,
    factors: tuple[int, ...],
    data: Numbers,
    request: CollectiveKind = CollectiveKind.ALLREDUCE,
) -> Held:
    """What every device holds at the end; ``data[d, r]`` is device d's contribution to chunk r.

    Where a request starts with less than all chunks, a device has its own rows of ``data`` only.
    """
    num_devices = prod(factors)
    held: Held = [{row: data[device, row] for row in range(num_devices)} for device in range(num_devices)]
    if request is CollectiveKind.ALLGATHER:
        held = [{device: data[device, device]} for device in range(num_devices)]
    elif request is CollectiveKind.BROADCAST:
        held[1:] = [{} for _ in range(num_devices - 1)]
    for steps in group_steps(program, factors, request):
        for step in steps:
            _run(step, held)
    return held


def _run(step: GroupStep, held: Held) -> None:
    members = step.members
    inputs = [held[member] for member in members]
    if step.instruction.collective is CollectiveKind.ALLGATHER:
        total = {row: numbers for own in inputs for row, numbers in own.items()}
    elif step.instruction.collective is CollectiveKind.BROADCAST:
        total = inputs[0]
    else:
        total = {row: np.sum([own[row] for own in inputs], axis=0) for row in inputs[0]}
    for member, rows in zip(members, step.after, strict=True):
        held[member] = {row: total[row] for row in rows}
