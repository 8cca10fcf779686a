"""Whole results: ranking, exposed time, defaults, replays, and uneven systems."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.estimates.explicit_groups import GroupCosts
from hemiola.errors import PlacementError
from hemiola.placement.axes import Axes, parse_axes
from hemiola.placement.defaults import DefaultOrder, default_orders
from hemiola.placement.enumerate import enumerate_placements, level_counts
from hemiola.placement.matrix import Numbers
from hemiola.placement.place import place
from hemiola.placement.priced import MOST_REPLAYED, replayed_seconds
from hemiola.placement.regular_part import regular_part
from hemiola.placement.score import grid_seconds, rank_placements
from hemiola.placement.search import search_permutation
from hemiola.placement.traffic import Traffic, TrafficRequest
from hemiola.topology.system import Level, Link, System
from plain_systems import plain_system as load_system

MIB = 1 << 20
ALLREDUCE = CollectiveKind.ALLREDUCE


def requests(*over: str, num_bytes: int = 64 * MIB) -> Traffic:
    return Traffic(tuple(TrafficRequest(ALLREDUCE, (name,), num_bytes, name=name) for name in over))


def test_ranking_is_of_all_and_fastest_first() -> None:
    system, axes = load_system("dgx-a100:4"), parse_axes("data=8,model=4")
    ranking = rank_placements(system, axes, requests("data", "model"))
    seconds = [score.seconds for score in ranking.scores]
    assert ranking.num_placements == 3
    assert seconds == sorted(seconds)
    assert ranking.worst_seconds == seconds[-1]
    assert rank_placements(system, axes, requests("data", "model"), top=1).scores == ranking.scores[:1]


def test_what_computation_hides_is_not_exposed() -> None:
    system, axes = load_system("2x4"), parse_axes("data=4,model=2")
    first = TrafficRequest(ALLREDUCE, ("data",), MIB, 2, "backward", "data")
    second = TrafficRequest(ALLREDUCE, ("model",), MIB, 1, "backward", "model")
    alone = rank_placements(system, axes, Traffic((first, second), {"backward": 0.0})).scores[0]
    half = alone.seconds / 2
    score = rank_placements(system, axes, Traffic((first, second), {"backward": half})).scores[0]
    assert alone.seconds == pytest.approx(sum(part.seconds for part in alone.times))
    assert score.seconds == pytest.approx(half)
    parts = [part.exposed_seconds / part.seconds for part in score.times]
    assert parts == pytest.approx([0.5, 0.5])
    assert rank_placements(system, axes, Traffic((first, second), {"backward": 9e9})).scores[0].seconds == 0


def test_defaults_are_orders_of_the_axes() -> None:
    axes = parse_axes("model=4,data=8")
    given, megatron = default_orders(axes)
    assert given.device_grid(axes).reshape(-1).tolist() == list(range(32))
    assert megatron.device_grid(axes)[:, 0].tolist() == [0, 1, 2, 3]
    (both,) = default_orders(parse_axes("data=8,model=4"))
    assert both.name.endswith("Megatron")
    (only,) = default_orders(parse_axes("rows=8,columns=4"))
    assert "Megatron" not in only.name


@pytest.mark.parametrize("text", ["data=8,model=4", "model=4,data=8", "a=2,b=8,c=2", "a=32", "a=4,b=4,c=2"])
def test_a_default_that_fits_is_a_matrix(text: str) -> None:
    axes = parse_axes(text)
    for order in permutations(range(len(axes))):
        default = DefaultOrder("order", order)
        matrix = default.matrix(axes, (2, 2, 8))
        assert matrix is not None
        names = [axis.name for axis in matrix.axes]
        grid = matrix.device_grid().transpose([names.index(axis.name) for axis in axes])
        assert np.array_equal(grid, default.device_grid(axes))


def test_a_default_that_straddles_units_is_no_matrix_but_has_a_time() -> None:
    system = System("six", (Level("host", 4, Link(1e9, 1e9)), Level("gpu", 6, Link(1e10, 1e10))))
    axes = parse_axes("data=6,model=4")
    assert default_orders(axes)[0].matrix(axes, level_counts(system)) is None
    result = place(system, axes, requests("data", "model"))
    assert result.default_seconds is not None
    assert result.seconds < result.default_seconds
    assert not result.default_is_best


def test_the_default_is_kept_where_nothing_is_faster() -> None:
    result = place(load_system("dgx-a100:4"), parse_axes("data=8,model=4"), requests("model"))
    assert result.default_is_best
    assert result.device_grid().reshape(-1).tolist() == list(range(32))


def grids(axes: Axes) -> list[Numbers]:
    """Every grid of eight devices by two axes, up to the order inside groups and of groups."""
    rows, columns = (axis.size for axis in axes)
    found = {}
    for order in permutations(range(1, 8)):
        grid = np.array((0, *order)).reshape(rows, columns)
        # Sorting the first row and the first column exchanges coordinates on an axis, which changes no group.
        if (np.diff(grid[0]) > 0).all() and (np.diff(grid[:, 0]) > 0).all():
            found[grid.tobytes()] = grid
    return list(found.values())


@pytest.mark.parametrize("counts", [(2, 4), (2, 2, 2)])
@pytest.mark.parametrize("over", [("data",), ("model",), ("data", "model")])
def test_no_permutation_is_cheaper_than_the_best_matrix(
    counts: tuple[int, ...], over: tuple[str, ...]
) -> None:
    names = ("host", "gpu") if len(counts) == 2 else ("rack", "host", "gpu")
    levels = [
        Level(name, count, Link(10.0**power, 10.0**power))
        for power, (name, count) in enumerate(zip(names, counts, strict=True), 9)
    ]
    system = System("small", tuple(levels))
    axes, costs = parse_axes("data=4,model=2"), GroupCosts(system)
    traffic = requests(*over)
    best = min(
        grid_seconds(costs.seconds, one.device_grid(), axes, traffic)
        for one in enumerate_placements(system, axes)
    )
    every = grids(axes)
    assert len(every) == 840
    assert best <= min(grid_seconds(costs.seconds, grid, axes, traffic) for grid in every) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["2x4", "2racks-2x2", "rails-2x4", "p2-v100:1"])
def test_the_first_by_closed_form_is_the_first_by_replay(name: str) -> None:
    system, axes = load_system(name), parse_axes("data=4,model=2")
    traffic = Traffic(
        (
            TrafficRequest(ALLREDUCE, ("data",), 4 * MIB, 2, name="gradients"),
            TrafficRequest(CollectiveKind.ALLTONEXT, ("model",), MIB, 3, name="to the next stage"),
            TrafficRequest(CollectiveKind.ALLTOALL, ("data", "model"), MIB, 1, name="tokens"),
        )
    )
    scores = rank_placements(system, axes, traffic).scores
    times = [replayed_seconds(system, score.matrix.device_grid(), axes, traffic) for score in scores]
    assert times[0] <= min(times) * 1.05


def test_search_avoids_a_slow_host() -> None:
    link = Link(1e9, 1e9)
    levels = (Level("host", 4, link), Level("gpu", 2, Link(1e11, 1e11)))
    # Two slow hosts, not beside each other: who talks much should be on one side.
    system = System("uneven", levels, exceptions={(0,): link.scaled(0.1), (2,): link.scaled(0.1)})
    axes = parse_axes("pipeline=2,data=4")
    traffic = Traffic((TrafficRequest(ALLREDUCE, ("data",), 64 * MIB, name="data"),))
    result = place(system, axes, traffic)
    assert result.searched is not None
    assert sorted(result.device_grid().reshape(-1).tolist()) == list(range(8))
    assert result.searched.seconds <= result.searched.start_seconds <= min(result.seconds_of_rows)
    assert result.searched.replayed_seconds == pytest.approx(result.searched.seconds, rel=0.5)
    assert result.searched.seconds <= (result.default_seconds or 0)


ODD_HOSTS = System(
    "odd hosts",
    (Level("host", 4, Link(1e9, 1e9)), Level("gpu", 5, Link(1e11, 1e11))),
    exceptions={(1,): Link(0.25e9, 0.25e9)},
)
"""Four hosts of five devices, one of them behind a slow NIC."""


@pytest.mark.parametrize("replay", [False, True])
def test_a_searched_permutation_is_faster_than_every_matrix_default_and_start(replay: bool) -> None:
    """Groups of four on hosts of five: by matrices and defaults each has a member on every host, and five groups use the slow NIC.

    In the order of devices two groups still straddle the slow host; one exchange of two devices leaves one, which is the least,
    because four of the five devices there can be among themselves.
    """
    axes, traffic = parse_axes("data=4,model=5"), requests("data")
    result = place(ODD_HOSTS, axes, traffic, replay=replay)
    searched, costs = result.searched, GroupCosts(ODD_HOSTS)
    assert searched is not None
    once = 2 * 3 / 4 * 64 * MIB / 0.25e9
    assert searched.seconds == pytest.approx(once, rel=0.01)
    assert searched.start_seconds == pytest.approx(2 * once, rel=0.01)
    regular = regular_part(ODD_HOSTS)
    assert regular is not None
    others = [one.device_grid() for one in enumerate_placements(regular, axes)]
    others += [one.device_grid(axes) for one in default_orders(axes)]
    times = [grid_seconds(costs.seconds, grid, axes, traffic) for grid in others]
    assert min(times) == pytest.approx(5 * once, rel=0.01)
    # What the result says and what is applied is the searched permutation.
    assert result.seconds == searched.seconds
    assert not result.default_is_best
    assert result.device_grid().tolist() == searched.grid.tolist()
    assert grid_seconds(costs.seconds, result.device_grid(), axes, traffic) == searched.seconds
    assert result.applied().permutation == searched.grid.reshape(-1).tolist()
    assert result.to_json()["permutation"]["devices"] == searched.grid.reshape(-1).tolist()
    on_slow_host = [
        group for group in searched.grid.T.tolist() if 0 < sum(5 <= device < 10 for device in group) < 4
    ]
    assert len(on_slow_host) == 1


def test_a_search_keeps_the_best_start_where_no_exchange_helps() -> None:
    system = load_system("uneven-4x2")
    axes, traffic = parse_axes("data=4,model=2"), requests("model")
    starts = [one.device_grid(axes) for one in default_orders(axes)]
    found = search_permutation(GroupCosts(system), starts, axes, traffic)
    assert found.seconds == found.start_seconds
    assert found.grid.tolist() == starts[0].tolist()
    assert found.num_trials >= len(starts) + 8 * 7 // 2


def test_the_first_and_the_best_default_are_replayed_and_decide() -> None:
    system, axes, traffic = load_system("2x4"), parse_axes("data=4,model=2"), requests("data", num_bytes=MIB)
    result = place(system, axes, traffic)
    assert result.replayed is not None
    assert result.best_default is not None
    first = replayed_seconds(system, result.first_grid(), axes, traffic)
    default = replayed_seconds(system, result.best_default.default.device_grid(axes), axes, traffic)
    assert result.replayed.seconds == first == sum(one.seconds for one in result.replayed.requests)
    assert result.replayed.default_seconds == default
    assert result.default_is_best == (default <= first * (1 + 1e-9))
    assert not result.default_is_best
    assert json.loads(json.dumps(result.to_json()))["replayed"]["seconds"] == first
    quick = place(system, axes, traffic, replay=False)
    assert quick.replayed is None
    assert quick.seconds_of_rows == result.seconds_of_rows


def test_large_systems_are_not_replayed() -> None:
    system = load_system("dgx-a100:16")
    assert system.num_ranks > MOST_REPLAYED
    assert place(system, parse_axes("data=16,model=8"), requests("data")).replayed is None


def test_a_missing_host_leaves_a_regular_part() -> None:
    levels = (Level("host", 3, Link(1e9, 1e9)), Level("gpu", 4, Link(1e11, 1e11)))
    system, axes = System("missing", levels, missing=frozenset({(1,)})), parse_axes("data=2,model=4")
    result = place(system, axes, requests("model"))
    assert result.ranking is not None
    assert result.ranking.scores[0].matrix.counts == (2, 4)
    whole = place(System("whole", (replace(levels[0], count=2), levels[1])), axes, requests("model"))
    assert result.seconds == pytest.approx(whole.seconds, rel=0.01)
    assert result.device_grid().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_missing_devices_leave_permutations() -> None:
    levels = (Level("host", 3, Link(1e9, 1e9)), Level("gpu", 4, Link(1e11, 1e11)))
    system = System("ragged", levels, missing=frozenset({(0, 0), (0, 3), (2, 1), (2, 2)}))
    axes = parse_axes("data=2,model=4")
    result = place(system, axes, requests("data"))
    assert result.ranking is None
    assert sorted(result.device_grid().reshape(-1).tolist()) == list(range(8))
    # Pairs inside hosts: two, four and two devices are there.
    assert result.seconds == pytest.approx(64 * MIB / 1e11, rel=0.01)


def test_many_devices_are_not_counted() -> None:
    link = Link(1e9, 1e9, 1e-6)
    levels = (Level("rack", 64, link), Level("row", 16, link), Level("host", 8, link), Level("gpu", 8, link))
    system = System("large", levels)
    axes = parse_axes("data=128,tensor=32,pipeline=16")
    ranking = rank_placements(system, axes, requests("data", "tensor", "pipeline"), top=3)
    assert ranking.num_placements > 100
    assert "devices" not in system.__dict__
    assert len(ranking.scores) == 3


def test_too_many_placements_are_counted_before_they_are_made() -> None:
    link = Link(1e9, 1e9)
    system = System("deep", tuple(Level(f"level{number}", 16, link) for number in range(4)))
    axes = parse_axes(",".join(f"a{number}=2" for number in range(16)))
    with pytest.raises(PlacementError, match="63063000 ways"):
        rank_placements(system, axes, requests("a0"))


def test_a_job_without_traffic_takes_no_time() -> None:
    result = place(load_system("2x4"), parse_axes("data=8,model=1"), requests("model"))
    assert result.seconds == result.default_seconds == 0
    assert result.default_is_best
    assert place(load_system("2x4"), parse_axes("data=8"), Traffic(())).seconds == 0


def test_time_does_not_depend_on_the_order_of_axes() -> None:
    system = replace(load_system("2racks-2x2"), name="same")
    one = rank_placements(system, parse_axes("data=4,model=2"), requests("data", "model"))
    other = rank_placements(system, parse_axes("model=2,data=4"), requests("data", "model"))
    assert [score.seconds for score in one.scores] == pytest.approx([score.seconds for score in other.scores])
