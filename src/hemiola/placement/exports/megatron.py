"""Megatron: an order of its axes, where one gives the placement."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.defaults import MEGATRON, DefaultOrder
from hemiola.placement.roles import role_of


def megatron_order(placement: AppliedPlacement) -> str | None:
    """The order string, the first axis fastest, or nothing where none gives as good a placement."""
    roles = [role_of(name) for name in placement.names]
    if None in roles or len(set(roles)) != len(roles):
        return None
    for slowest_first in permutations(range(len(roles))):
        if _is_as_good(DefaultOrder("", slowest_first), placement):
            used = [str(roles[axis]) for axis in reversed(slowest_first)]
            # Axes that the job does not have are of size one, and may stand anywhere.
            return "-".join([*used, *(role for role in MEGATRON if role not in used)])
    return None


def _is_as_good(order: DefaultOrder, placement: AppliedPlacement) -> bool:
    """Whether an order gives the same coordinates, or others of equal cost: units of a switch may change places."""
    if np.array_equal(order.device_grid(placement.axes), placement.grid):
        return True
    symmetric = all(level.fabric.kind != "mesh" for level in placement.system.levels)
    matrix = order.matrix(placement.axes, placement.matrix.counts) if placement.matrix else None
    if matrix is None or placement.matrix is None or not symmetric:
        return False
    theirs = dict(zip(matrix.axes, matrix.rows, strict=True))
    return theirs == dict(zip(placement.matrix.axes, placement.matrix.rows, strict=True))


def megatron_text(placement: AppliedPlacement) -> str:
    """The order string, or why there is none."""
    order = megatron_order(placement)
    if order is not None:
        return f"{order}\n"
    if any(role_of(name) is None for name in placement.names):
        return "None: an axis is none of Megatron's (tp, cp, ep, dp, pp).\n"
    return (
        "None: Megatron gives each axis one place in an order of ranks, and here an axis is split over levels with\n"
        "another one between. Start the ranks in the order of rankfile or hostfile instead, with the axes row-major.\n"
    )
