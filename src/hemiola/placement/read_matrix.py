"""read_matrix: a placement as a person writes it, ``2,4;2,2``: a row for each axis, a number for each level."""

from __future__ import annotations

from hemiola.errors import PlacementError
from hemiola.placement.axes import Axes
from hemiola.placement.defaults import DefaultOrder
from hemiola.placement.matrix import ParallelismMatrix

LONGEST_TEXT = 1000


def read_matrix(text: str, axes: Axes, counts: tuple[int, ...]) -> ParallelismMatrix:
    """The matrix of a text; its rows multiply to the axes, its columns to the levels."""
    try:
        rows = tuple(
            tuple(int(number) for number in row.split(",")) for row in text[:LONGEST_TEXT].split(";")
        )
    except ValueError:
        raise PlacementError(
            f"a matrix reads 2,4;2,2, a row for each axis and a number for each level, not {text[:60]!r}"
        ) from None
    if len(rows) != len(axes) or any(len(row) != len(counts) or min(row) < 1 for row in rows):
        raise PlacementError(
            f"matrix {text[:60]!r} has not {len(axes)} rows of {len(counts)} numbers above zero, as the axes and levels need"
        )
    return ParallelismMatrix(axes, counts, rows)


def row_major(axes: Axes, counts: tuple[int, ...]) -> ParallelismMatrix:
    """Devices in order, the last axis changing fastest: what reshaping a list of devices gives."""
    found = DefaultOrder("row-major", tuple(range(len(axes)))).matrix(axes, counts)
    if found is None:
        raise PlacementError(
            f"axes of {[axis.size for axis in axes]} in plain order cut levels of {list(counts)} unevenly; give a placement "
            "with --matrix"
        )
    return found
