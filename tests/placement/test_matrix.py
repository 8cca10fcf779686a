"""Devices and coordinates, and the groups of a request."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.errors import PlacementError
from hemiola.placement.axes import parse_axes
from hemiola.placement.enumerate import matrices
from hemiola.placement.groups import device_groups
from hemiola.placement.matrix import ParallelismMatrix

WORKED = ParallelismMatrix(parse_axes("data=4,shard=4"), (1, 2, 2, 4), ((1, 1, 2, 2), (1, 2, 1, 2)))


def test_worked_example() -> None:
    expected = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    expected += [(0, 2), (0, 3), (1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3)]
    assert [tuple(row) for row in WORKED.coordinates().tolist()] == expected


def test_groups_differ_only_on_their_axes() -> None:
    groups = device_groups(WORKED, ["data"])
    assert groups.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]
    assert device_groups(WORKED, ["shard", "data"]).shape == (1, 16)


def coordinate(matrix: ParallelismMatrix, device: int, axis: int) -> int:
    """By digits, level by level."""
    number, below = 0, matrix.num_devices
    for level, count in enumerate(matrix.counts):
        below //= count
        digit = device // below % count
        for other in reversed(range(axis + 1, len(matrix.axes))):
            digit //= matrix.rows[other][level]
        number = number * matrix.rows[axis][level] + digit % matrix.rows[axis][level]
    return number


@given(st.data())
def test_coordinates_are_those_of_the_digits(data: st.DataObject) -> None:
    counts = (2, 6, 4)
    axes = data.draw(st.sampled_from(["a=8,b=6", "a=2,b=4,c=6", "a=48", "a=3,b=16"]))
    parsed = parse_axes(axes)
    rows = data.draw(st.sampled_from(list(matrices([axis.size for axis in parsed], counts))))
    matrix = ParallelismMatrix(parsed, counts, rows)
    found = matrix.coordinates()
    for device in range(matrix.num_devices):
        assert found[device].tolist() == [coordinate(matrix, device, axis) for axis in range(len(parsed))]
    assert len(np.unique(found, axis=0)) == matrix.num_devices


def test_products_are_checked() -> None:
    with pytest.raises(PlacementError, match="rows"):
        ParallelismMatrix(parse_axes("a=4,b=2"), (2, 4), ((2, 1), (1, 4)))
    with pytest.raises(PlacementError, match="columns"):
        ParallelismMatrix(parse_axes("a=2,b=4"), (2, 4), ((1, 2), (4, 1)))
