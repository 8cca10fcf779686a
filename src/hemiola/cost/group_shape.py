"""group_shape: over how many units of each level of a system the groups of a request are split."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hemiola.topology.system import System

Numbers = npt.NDArray[np.int64]


def regular_factors(system: System, groups: Numbers) -> tuple[int, ...] | None:
    """The units of each level over which every group is split in the same way; None where groups differ or are uneven.

    Members are in the order of the system's devices. On two hosts of four devices, {0, 1, 4, 5} and {2, 3, 6, 7} are split over
    two hosts and two devices of each: (2, 2).
    """
    digits = _digits(system)[groups]
    factors, members = [], groups.shape[1]
    for level in range(digits.shape[2]):
        units = digits[:, :, : level + 1].reshape(-1, members, level + 1)
        changes = (units[:, 1:] != units[:, :-1]).any(axis=2).sum(axis=1) + 1
        factor = int(changes[0])
        blocks = units.reshape(len(units), factor, -1, level + 1) if members % factor == 0 else None
        if blocks is None or (changes != factor).any() or (blocks != blocks[:, :, :1]).any():
            return None
        factors.append(factor)
        members //= factor
    return tuple(factors)


def _digits(system: System) -> Numbers:
    """The number of each device at each level."""
    return np.array(system.devices, np.int64).reshape(system.num_ranks, -1)
