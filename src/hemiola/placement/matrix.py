"""ParallelismMatrix: how many units of each level every axis is split over, and which device that makes whose.

Rows are axes and columns are levels, outermost first; a row multiplies to its axis, a column to its level's count. A
device's digit at a level is split into one digit for each axis, the first axis counting slowest; the coordinate on an axis is
the number made of its digits, the outermost level counting slowest. On levels of 1, 2, 2 and 4 units, the matrix
``[[1, 1, 2, 2], [1, 2, 1, 2]]`` of data=4 and shard=4 puts devices 0 to 3 at (0, 0), (0, 1), (1, 0) and (1, 1), and device 8,
the first of the other server, at (0, 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.errors import PlacementError
from hemiola.placement.axes import Axes

Numbers = npt.NDArray[np.int64]
Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ParallelismMatrix:
    """A placement of axes on levels."""

    axes: Axes
    counts: tuple[int, ...]
    """Units of each level."""
    rows: Rows

    def __post_init__(self) -> None:
        found = [math.prod(row) for row in self.rows]
        if found != [axis.size for axis in self.axes] or any(
            len(row) != len(self.counts) for row in self.rows
        ):
            raise PlacementError(
                f"the rows of {self.text} multiply to {found}, but the axes are {[axis.size for axis in self.axes]}"
            )
        columns = [math.prod(column) for column in zip(*self.rows, strict=True)]
        if columns != list(self.counts):
            raise PlacementError(
                f"the columns of {self.text} multiply to {columns}, but the levels are {list(self.counts)}"
            )

    @property
    def text(self) -> str:
        """``[1 2] [4 2]``: a row after another."""
        return " ".join(f"[{' '.join(map(str, row))}]" for row in self.rows)

    @property
    def num_devices(self) -> int:
        """Of all levels."""
        return math.prod(self.counts)

    def device_grid(self) -> Numbers:
        """The device at each coordinate: an array with a dimension for each axis."""
        num_axes, num_levels = len(self.axes), len(self.counts)
        digits = [self.rows[axis][level] for level in range(num_levels) for axis in range(num_axes)]
        order = [level * num_axes + axis for axis in range(num_axes) for level in range(num_levels)]
        devices = np.arange(self.num_devices).reshape(digits).transpose(order)
        return devices.reshape([axis.size for axis in self.axes])

    def coordinates(self) -> Numbers:
        """The coordinate of each device on each axis: a row for each device."""
        place = np.empty(self.num_devices, np.int64)
        place[self.device_grid().reshape(-1)] = np.arange(self.num_devices)
        return np.stack(np.unravel_index(place, [axis.size for axis in self.axes]), axis=1)
