"""Axes on the command line: names with sizes, a placement's matrix, and the matrix of plain row-major order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from hemiola.errors import ReductionError
from hemiola.topology.system import System

Matrix = tuple[tuple[int, ...], ...]


def parse_axes(text: str) -> dict[str, int]:
    """``data=8,model=4``, the outermost axis first."""
    axes: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = (piece.strip() for piece in part.partition("="))
        if not name.isidentifier() or not equals or not size.isdecimal() or int(size) < 1:
            raise ReductionError(
                f"axes read data=8,model=4, a name and a size of 1 or more each, not {part!r}"
            )
        if name in axes:
            raise ReductionError(f"axis {name!r} is given twice; every axis has its own name")
        axes[name] = int(size)
    return axes


def rows_of(names: str, axes: Mapping[str, int]) -> list[int]:
    """The rows of the axes that are reduced over, ``data`` or ``data,model``."""
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in axes:
            raise ReductionError(f"there is no axis {name!r} to reduce over; the axes are {', '.join(axes)}")
    if len(set(wanted)) < len(wanted):
        raise ReductionError(f"an axis is named twice in {names!r}")
    return [row for row, name in enumerate(axes) if name in wanted]


def check_sizes(axes: Mapping[str, int], system: System) -> None:
    """Raise unless there is exactly one place for every device."""
    places, devices = prod(axes.values()), prod(level.count for level in system.levels)
    if places != devices:
        said = " · ".join(f"{name}={size}" for name, size in axes.items())
        raise ReductionError(
            f"{said} has {places} places, but system {system.name!r} has {devices} devices; the product must be {devices}"
        )


def parse_matrix(text: str, axes: Mapping[str, int], system: System) -> Matrix:
    """``2,4;2,2``: a row for each axis, a number for each level; rows multiply to axes, columns to levels."""
    try:
        matrix = tuple(tuple(int(number) for number in row.split(",")) for row in text.split(";"))
    except ValueError:
        raise ReductionError(
            f"a matrix reads 2,4;2,2, a row for each axis and a number for each level, not {text!r}"
        ) from None
    counts = [level.count for level in system.levels]
    fits = len(matrix) == len(axes) and all(len(row) == len(counts) and min(row) > 0 for row in matrix)
    if not fits or [prod(row) for row in matrix] != list(axes.values()) or _columns(matrix) != counts:
        raise ReductionError(
            f"matrix {text!r} does not fit: its rows multiply to the axes {list(axes.values())} and its columns to the"
            f" levels {counts}"
        )
    return matrix


def _columns(matrix: Matrix) -> list[int]:
    return [prod(column) for column in zip(*matrix, strict=True)]


def row_major(axes: Sequence[int], counts: Sequence[int]) -> Matrix:
    """Devices in order, the last axis changing fastest: what reshaping a list of devices gives."""
    matrix = [[1] * len(counts) for _ in axes]
    left, row = list(axes), len(axes) - 1
    for level in reversed(range(len(counts))):
        units = counts[level]
        while units > 1:
            while left[row] == 1:
                row -= 1
            size = min(units, left[row])
            if units % size or left[row] % size:
                raise ReductionError(
                    f"axes {list(axes)} in plain order cut level {level + 1} of {list(counts)} unevenly; give a placement"
                    " with --matrix"
                )
            matrix[row][level] *= size
            left[row] //= size
            units //= size
    return tuple(map(tuple, matrix))
