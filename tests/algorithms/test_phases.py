"""Levels, groups, and who owns what after each of them."""

from __future__ import annotations

from itertools import chain

import pytest

from algorithms.grid import LEVELS
from hemiola.algorithms.buffer_places import Block, merge_runs
from hemiola.algorithms.phases import (
    Layout,
    groups_of,
    packed_inside_first,
    packed_outside_first,
    strided_inside_first,
)
from hemiola.algorithms.powers_of_two import split_powers_of_two

ALL_LEVELS = [levels for shapes in LEVELS.values() for levels in shapes]


def test_groups_differ_in_one_digit() -> None:
    assert [list(group) for group in groups_of((2, 3), 0)] == [[0, 3], [1, 4], [2, 5]]
    assert [list(group) for group in groups_of((2, 3), 1)] == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("levels", ALL_LEVELS)
@pytest.mark.parametrize("layout", [packed_inside_first, strided_inside_first])
def test_inside_first_a_group_shares_what_its_members_had(levels: tuple[int, ...], layout: Layout) -> None:
    check_shares(levels, layout, list(reversed(range(len(levels)))))


@pytest.mark.parametrize("levels", ALL_LEVELS)
def test_outside_first_a_group_shares_what_its_members_had(levels: tuple[int, ...]) -> None:
    check_shares(levels, packed_outside_first, list(range(len(levels))))


@pytest.mark.parametrize("levels", ALL_LEVELS)
def test_rank_r_ends_with_chunk_r(levels: tuple[int, ...]) -> None:
    for rank in range(len(groups_of(levels, 0)) * levels[0]):
        assert chunks(strided_inside_first(rank, levels, 0)) == [rank]
        assert chunks(packed_outside_first(rank, levels, len(levels) - 1)) == [rank]


def test_runs_that_touch_become_one() -> None:
    blocks: list[Block] = [((0, 2),), ((2, 1),), ((3, 1),)]
    assert merge_runs(blocks, 0, 3) == [(0, 4)]
    assert merge_runs(blocks, 2, 2) == [(0, 2), (3, 1)]
    assert merge_runs([((0, 1), (2, 1)), ((1, 1), (3, 1))], 0, 2) == [(0, 4)]


@pytest.mark.parametrize(("ranks", "levels"), [(1, (1,)), (7, (7,)), (8, (1, 2, 2, 2)), (12, (3, 2, 2))])
def test_powers_of_two_are_split_off(ranks: int, levels: tuple[int, ...]) -> None:
    assert split_powers_of_two(ranks) == levels


def check_shares(levels: tuple[int, ...], layout: Layout, order: list[int]) -> None:
    """Before each phase the members of a group own the same chunks, and after it each a part of them."""
    total = len(groups_of(levels, 0)) * levels[0]
    owned = {rank: list(range(total)) for rank in range(total)}
    for level in order:
        for group in groups_of(levels, level):
            parts = [chunks(layout(rank, levels, level)) for rank in group]
            assert all(owned[rank] == sorted(chain.from_iterable(parts)) for rank in group)
            assert len({len(part) for part in parts}) == 1
            owned.update(zip(group, parts, strict=True))


def chunks(block: Block) -> list[int]:
    return [index for first, count in block for index in range(first, first + count)]
