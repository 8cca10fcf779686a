"""The five rules on k by k matrices of booleans, device by device: slow, and for factors of any sizes."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from hemiola.collectives import CollectiveKind
from hemiola.synthesis.program import Form, Instruction, ReductionProgram

Matrices = npt.NDArray[np.bool_]
"""[device, row, contribution]"""


def digits_of(device: int, factors: tuple[int, ...]) -> tuple[int, ...]:
    digits = []
    for factor in reversed(factors):
        device, digit = divmod(device, factor)
        digits.append(digit)
    return tuple(reversed(digits))


def groups_by_words(instruction: Instruction, factors: tuple[int, ...]) -> list[list[int]]:
    """Groups straight from what the forms say: instances of slices, and the i-th devices of them."""
    num_devices = prod(factors)

    def instance(device: int, level: int) -> tuple[int, ...]:
        return digits_of(device, factors)[:level]

    level = instruction.slice_level
    found: dict[object, list[int]] = {}
    if instruction.form is Form.INSIDE:
        for device in range(num_devices):
            found.setdefault(instance(device, level), []).append(device)
        return list(found.values())
    assert instruction.ancestor is not None
    for device in range(num_devices):
        place = digits_of(device, factors)[level:]
        if instruction.form is Form.PARALLEL or not any(place):
            found.setdefault((instance(device, instruction.ancestor), place), []).append(device)
    return list(found.values())


def start(request: CollectiveKind, k: int) -> Matrices:
    held = np.zeros((k, k, k), bool)
    for device in range(k):
        if request is CollectiveKind.ALLGATHER:
            held[device, device, :] = True
        elif request is CollectiveKind.BROADCAST:
            held[device] = device == 0
        else:
            held[device, :, device] = True
    return held


def apply(instruction: Instruction, held: Matrices, factors: tuple[int, ...]) -> Matrices | None:
    """The state after a step; None where it may not run."""
    after = held.copy()
    for group in groups_by_words(instruction, factors):
        if not held[group].any() or not _run(instruction.collective, group, held, after):
            return None
    return None if (after == held).all() else after


def _run(collective: CollectiveKind, group: list[int], held: Matrices, after: Matrices) -> bool:
    members: Matrices = held[group]
    total = np.asarray(members.any(axis=0))
    if collective is CollectiveKind.BROADCAST:
        after[group] = held[group[0]]
        return bool(held[group[0]].any()) and not (held[group] & ~held[group[0]]).any()
    rows = np.asarray(members.any(axis=2))
    if not rows.any(axis=1).all():
        return False
    if collective is CollectiveKind.ALLGATHER:
        after[group] = total
        return bool((rows.sum(axis=0) <= 1).all() and len(set(rows.sum(axis=1).tolist())) == 1)
    if (rows != rows[0]).any() or (held[group].sum(axis=0) > 1).any():
        return False
    if collective is CollectiveKind.ALLREDUCE:
        after[group] = total
        return True
    after[group] = False
    if collective is CollectiveKind.REDUCE:
        after[group[0]] = total
        return True
    indices = np.flatnonzero(rows[0])
    if len(indices) % len(group):
        return False
    for device, part in zip(group, np.split(indices, len(group)), strict=True):
        after[device, part] = total[part]
    return True


def achieves(program: ReductionProgram, factors: tuple[int, ...], request: CollectiveKind) -> bool:
    """Whether every step may run and the request is fulfilled at the end."""
    held: Matrices | None = start(request, prod(factors))
    for instruction in program:
        assert held is not None
        held = apply(instruction, held, factors)
        if held is None:
            return False
    assert held is not None
    if request is CollectiveKind.REDUCE:
        return bool(held[0].all())
    if request is CollectiveKind.REDUCESCATTER:
        return all(held[device, device].all() for device in range(len(held)))
    return bool(held.all())
