"""A matrix as a person writes it, and the one of plain order."""

from __future__ import annotations

import pytest

from hemiola.errors import PlacementError
from hemiola.placement.axes import parse_axes
from hemiola.placement.read_matrix import read_matrix, row_major


def test_row_major_is_what_a_reshape_gives() -> None:
    assert row_major(parse_axes("a=8,b=4"), (4, 8)).rows == ((4, 2), (1, 4))
    assert row_major(parse_axes("a=2,b=1,c=16"), (4, 8)).rows == ((2, 1), (1, 1), (2, 8))
    with pytest.raises(PlacementError, match="unevenly"):
        row_major(parse_axes("a=3,b=4"), (2, 6))


def test_a_matrix_is_read_or_refused() -> None:
    axes = parse_axes("data=4,model=4")
    assert read_matrix("2,2;1,4", axes, (2, 8)).rows == ((2, 2), (1, 4))
    for text, words in (
        ("a", "a matrix reads 2,4;2,2"),
        ("2,2", "has not 2 rows of 2 numbers"),
        ("2,2;0,4", "has not 2 rows of 2 numbers above zero"),
        ("4,1;1,4", "the columns of"),
        ("2,1;1,4", "the rows of"),
    ):
        with pytest.raises(PlacementError, match=words):
            read_matrix(text, axes, (2, 8))
