"""The groups of a reduction over some axes of a parallelism matrix, as synthesis is asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from hemiola.placement.axes import Axis
from hemiola.placement.groups import groups_of_grid
from hemiola.placement.matrix import ParallelismMatrix

Matrix = tuple[tuple[int, ...], ...]
Numbers = npt.NDArray[np.int64]


def placed_groups(matrix: Matrix, rows: Sequence[int]) -> Numbers:
    """A row for each group of devices that differ only on the axes of some rows, devices in order."""
    axes = tuple(Axis(f"axis{number}", prod(row)) for number, row in enumerate(matrix))
    counts = tuple(prod(column) for column in zip(*matrix, strict=True))
    return np.sort(groups_of_grid(ParallelismMatrix(axes, counts, matrix).device_grid(), rows), axis=1)
