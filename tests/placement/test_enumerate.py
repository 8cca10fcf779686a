"""Every parallelism matrix, once, and how many there are."""

from __future__ import annotations

import math
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.errors import PlacementError
from hemiola.placement.axes import Axis, nearest_sizes, parse_axes
from hemiola.placement.enumerate import enumerate_placements, matrices, num_matrices
from hemiola.topology.presets import load_system

KNOWN = [
    ([1, 2, 2, 4], [4, 4], 4), ([2, 16], [32], 1), ([2, 16], [4, 8], 2), ([2, 16], [8, 4], 2), ([2, 16], [2, 16], 2),
    ([2, 16], [16, 2], 2), ([2, 16], [2, 4, 4], 3), ([2, 16], [8, 2, 2], 3), ([4, 16], [8, 8], 3), ([4, 16], [4, 16], 3),
    ([4, 16], [16, 4], 3), ([4, 16], [2, 32], 2), ([4, 16], [4, 4, 4], 6), ([4, 16], [16, 2, 2], 4), ([4, 8], [8, 4], 3),
    ([4, 8], [4, 2, 4], 5), ([4, 2, 8], [8, 8], 6), ([4, 2, 8], [4, 4, 4], 15), ([16, 4, 8], [8, 8, 8], 45),
    ([64, 2, 4], [8, 8, 8], 18), ([32, 18, 4], [36, 8, 8], 17),
]  # fmt: skip


@pytest.mark.parametrize(("levels", "axes", "number"), KNOWN)
def test_known_counts(levels: list[int], axes: list[int], number: int) -> None:
    assert len(list(matrices(axes, levels))) == num_matrices(axes, levels) == number


@st.composite
def shapes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Levels, and axes with the same product."""
    levels = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    rest, axes = math.prod(levels), []
    for _ in range(draw(st.integers(0, 2))):
        axes.append(draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0])))
        rest //= axes[-1]
    return levels, [*axes, rest]


@given(shapes())
def test_every_matrix_comes_once_and_fits(shape: tuple[list[int], list[int]]) -> None:
    levels, axes = shape
    found = list(matrices(axes, levels))
    assert len(set(found)) == len(found) == num_matrices(axes, levels)
    for rows in found:
        assert [math.prod(row) for row in rows] == axes
        assert [math.prod(column) for column in zip(*rows, strict=True)] == levels


@pytest.mark.parametrize(("levels", "axes"), [([4, 6], [6, 4]), ([6, 6], [4, 9]), ([2, 3, 4], [12, 2])])
def test_none_is_left_out(levels: list[int], axes: list[int]) -> None:
    divisors = [n for n in range(1, 37) if math.prod(levels) % n == 0]
    every = product(product(divisors, repeat=len(levels)), repeat=len(axes))
    fitting = {
        rows
        for rows in every
        if [math.prod(row) for row in rows] == axes
        and [math.prod(column) for column in zip(*rows, strict=True)] == levels
    }
    assert set(matrices(axes, levels)) == fitting


def test_they_come_one_at_a_time() -> None:
    many = matrices([2**20] * 4, [2**20] * 4)
    assert len(list(islice(many, 3))) == 3


def test_other_products_are_refused_with_the_nearest() -> None:
    with pytest.raises(PlacementError, match=r"6x4 is 24, but .* 32 devices; .* data=8,model=4"):
        enumerate_placements(load_system("dgx-a100:4"), parse_axes("data=6,model=4"))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(1, 60))
def test_nearest_sizes_are_nearest(sizes: list[int], product_: int) -> None:
    def distance(found: tuple[int, ...]) -> float:
        return sum(abs(math.log(size / asked)) for size, asked in zip(found, sizes, strict=True))

    found = nearest_sizes(tuple(sizes), product_)
    assert math.prod(found) == product_
    divisors = [n for n in range(1, product_ + 1) if product_ % n == 0]
    fitting = (one for one in product(divisors, repeat=len(sizes)) if math.prod(one) == product_)
    assert distance(found) <= min(map(distance, fitting)) + 1e-6


def test_axes_are_read() -> None:
    assert parse_axes("data=8, model=4") == (Axis("data", 8), Axis("model", 4))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data", "expected names and sizes such as data=8,model=4, found 'data'"),
        ("data=0", "data has size 0"),
        ("data=2,data=4", "'data' is there twice"),
        ("", "found ''"),
        ("8=data", "found '8=data'"),
    ],
)
def test_bad_axes_are_refused(text: str, message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        parse_axes(text)
