"""Defaults: the orders in which frameworks give devices to coordinates when nobody asks for another.

Each is an order of axes, slowest first: coordinates count through the devices in it, the last axis fastest. Where the sizes
fit the levels such an order is a parallelism matrix; where they do not, axes straddle units, and it is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hemiola.placement.axes import Axes
from hemiola.placement.matrix import Numbers, ParallelismMatrix
from hemiola.placement.roles import NAMES, role_of

MEGATRON = tuple(NAMES)
"""tp-cp-ep-dp-pp, the first fastest."""


@dataclass(frozen=True, slots=True)
class DefaultOrder:
    """What some frameworks do by default."""

    name: str
    order: tuple[int, ...]
    """Numbers of the axes, slowest first."""

    def device_grid(self, axes: Axes) -> Numbers:
        """The device at each coordinate, a dimension for each axis."""
        sizes = [axes[number].size for number in self.order]
        return np.arange(math.prod(sizes)).reshape(sizes).transpose(np.argsort(self.order))

    def matrix(self, axes: Axes, counts: tuple[int, ...]) -> ParallelismMatrix | None:
        """The same as a matrix, its axes in this order, or nothing where an axis straddles units."""
        ordered = tuple(axes[number] for number in self.order)
        rows = [[1] * len(counts) for _ in ordered]
        left = list(counts)
        level = len(counts) - 1
        for number in reversed(range(len(ordered))):
            rest = ordered[number].size
            while rest > 1:
                while left[level] == 1:
                    level -= 1
                part = math.gcd(rest, left[level])
                # The axis either ends inside the level or takes all that is left of it.
                if part != rest and part != left[level]:
                    return None
                rows[number][level] *= part
                rest, left[level] = rest // part, left[level] // part
        return ParallelismMatrix(ordered, counts, tuple(map(tuple, rows)))


def default_orders(axes: Axes) -> tuple[DefaultOrder, ...]:
    """JAX's reshape and torch's init_device_mesh, and Megatron's order where it knows the axes."""
    given = DefaultOrder("JAX reshape, torch init_device_mesh", tuple(range(len(axes))))
    roles = [role_of(axis.name) for axis in axes]
    if None in roles or len(set(roles)) != len(roles):
        return (given,)
    fastest_first = sorted(range(len(axes)), key=lambda number: MEGATRON.index(str(roles[number])))
    order = tuple(reversed(fastest_first))
    if order == given.order:
        return (DefaultOrder(f"{given.name}, Megatron", order),)
    return given, DefaultOrder("Megatron " + "-".join(MEGATRON), order)
