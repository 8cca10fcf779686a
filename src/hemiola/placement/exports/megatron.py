"""Megatron: an order of its axes, where one gives the placement."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np

from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.defaults import MEGATRON
from hemiola.placement.roles import role_of


def megatron_order(placement: AppliedPlacement) -> str | None:
    """The order string, the first axis fastest, or nothing where none gives the placement's groups."""
    roles = [role_of(name) for name in placement.names]
    if None in roles or len(set(roles)) != len(roles):
        return None
    for slowest_first in permutations(range(len(roles))):
        sizes = [placement.shape[axis] for axis in slowest_first]
        grid = np.arange(math.prod(sizes)).reshape(sizes).transpose(np.argsort(slowest_first))
        if np.array_equal(grid, placement.grid):
            used = [str(roles[axis]) for axis in reversed(slowest_first)]
            # Axes that the job does not have are of size one, and may stand anywhere.
            return "-".join([*used, *(role for role in MEGATRON if role not in used)])
    return None


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
