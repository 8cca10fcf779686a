"""groups: the devices that take part in a request together, for every coordinate on the other axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hemiola.placement.axes import find_axis
from hemiola.placement.matrix import Numbers, ParallelismMatrix


def device_groups(matrix: ParallelismMatrix, over: Sequence[str]) -> Numbers:
    """A row for each group of a request over some axes: its devices, the first of these axes counting slowest."""
    return groups_of_grid(matrix.device_grid(), [find_axis(matrix.axes, name, "groups") for name in over])


def groups_of_grid(grid: Numbers, over: Sequence[int]) -> Numbers:
    """The same for any grid of devices, a dimension for each axis."""
    others = [axis for axis in range(grid.ndim) if axis not in over]
    size = int(np.prod([grid.shape[axis] for axis in over], dtype=np.int64))
    return grid.transpose([*others, *over]).reshape(-1, size)
