"""How ranks lie on hosts, and why they have no levels."""

from __future__ import annotations

import pytest

from hemiola.tuning.layout import layout_of


@pytest.mark.parametrize(
    ("hosts", "levels"),
    [((0, 0, 1, 1), (2, 2)), ((7, 7, 7, 2, 2, 2), (2, 3)), (tuple(r // 8 for r in range(32)), (4, 8))],
)
def test_equal_blocks_of_neighbours_have_levels(hosts: tuple[int, ...], levels: tuple[int, int]) -> None:
    layout = layout_of(hosts)
    assert layout.obstacle is None
    assert layout.levels == levels
    assert (layout.num_ranks, layout.num_hosts) == (len(hosts), levels[0])


@pytest.mark.parametrize(
    ("hosts", "obstacle"),
    [
        ((0,), "all ranks are on one host"),
        ((3, 3, 3), "all ranks are on one host"),
        ((0, 1, 2), "every host has only one rank"),
        ((0, 0, 1), "hosts have from 1 to 2 ranks, and as many on each are needed"),
        ((0, 0, 5, 0), "rank 2 of another host stands between ranks of host 0; number the ranks host by host"),
        ((0, 5, 6, 5, 0), "rank 1 of another host stands between ranks of host 0; number the ranks host by host"),
        ((1, 1, 2, 3, 2, 3), "rank 3 of another host stands between ranks of host 2; number the ranks host by host"),
    ],
)  # fmt: skip
def test_the_obstacle_is_named(hosts: tuple[int, ...], obstacle: str) -> None:
    assert layout_of(hosts).obstacle == obstacle
