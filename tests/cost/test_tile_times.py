"""TileTimes: a plan that is wired and folded once has the seconds of one that is replayed from nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.cost.price import PricedPlan, fill_price
from hemiola.cost.replay_seconds import SOME_TILES, replay
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.tile_times import TileTimes
from hemiola.simulator.replay import ReplayOptions
from hemiola.simulator.runtimes.hemiola import HEMIOLA
from hemiola.topology.presets import load_system

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("dgx-a100:2", "allreduce_ring", {}),
    ("dgx-a100:2", "allreduce_allpairs", {}),
    ("mi300x:2", "reducescatter_allpairs", {}),
    ("mi300x:2", "allreduce_halving_doubling", {}),
    ("dgx1-v100:2", "allgather_hierarchical", {"inside": "allpairs", "across": "halving", "levels": (2, 8)}),
    ("2x4", "alltoall_two_step", {"levels": (2, 4)}),
]


def times_of(system: str, algorithm: str, options: dict[str, Any]) -> TileTimes:
    machine = load_system(system)
    plan = compile_program(ALGORITHMS[algorithm].build(ranks=machine.num_ranks, **options)).plan
    request = CollectiveRequest.of_system(ALGORITHMS[algorithm].kind, machine)
    return TileTimes(request, plan, HEMIOLA)


@pytest.mark.parametrize(("system", "algorithm", "options"), CASES)
def test_seconds_are_those_of_an_unfolded_replay(
    system: str, algorithm: str, options: dict[str, Any]
) -> None:
    times = times_of(system, algorithm, options)
    length = min(times.tile_lengths(1))
    for elements in (1, 7, length, length + 1, 3 * length - 5, 9 * length):
        lengths = times.tile_lengths(elements)
        assert -(-elements // min(lengths)) <= SOME_TILES
        replayed = replay(
            times.plan, elements * times.unit, times.request, HEMIOLA, ReplayOptions(fold=False)
        )
        assert times.seconds(elements, lengths) == pytest.approx(replayed.seconds, rel=1e-9)


def test_what_is_left_over_is_one_more_tile() -> None:
    times = times_of("dgx-a100:2", "allreduce_ring", {})
    elements = 100_000
    more = replay(times.plan, elements * times.unit + times.unit / 2, times.request, HEMIOLA).seconds
    found = times.seconds(elements, times.tile_lengths(elements), left_over=True)
    assert found == pytest.approx(more, rel=1e-9)


def test_groups_that_lie_on_hosts_in_other_ways_have_tiles_of_their_own() -> None:
    groups = [(0, 1, 2, 3), (4, 8, 9, 10)]
    request = CollectiveRequest.of_groups(CollectiveKind.ALLREDUCE, load_system("dgx-a100:2"), groups)
    plan = compile_program(ALGORITHMS["allreduce_ring"].build(ranks=4)).plan
    times = TileTimes(request, plan, HEMIOLA)
    assert request.pattern_of_group == (0, 1)
    for elements in (10, 1 << 18):
        found = times.seconds(elements, times.tile_lengths(elements))
        assert found == pytest.approx(replay(plan, elements * times.unit, request, HEMIOLA).seconds, rel=1e-9)
    assert len(set(times.tile_lengths(1 << 18))) == 2


def test_long_chains_of_additions_fold() -> None:
    """Members of an all-pairs exchange add in turn, and are told apart one turn a round; all ranks are still alike."""
    request = CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, load_system("gb200-nvl72"))
    plan = compile_program(ALGORITHMS["allreduce_allpairs"].build(ranks=72, in_place=True)).plan
    found = replay(plan, 1 << 16, request).timeline
    assert found.num_simulated * 72 == found.num_steps


@pytest.mark.parametrize(("system", "ranks"), [("mi300x:8", 64), ("mi300x:4", 32)])
def test_prices_know_of_tiles_that_wait_for_slots(system: str, ranks: int) -> None:
    """With four slots every fifth tile waits, so that times lie on lines only between multiples of four."""
    plan = compile_program(ALGORITHMS["allgather_recursive_doubling"].build(ranks=ranks)).plan
    request = CollectiveRequest.of_system(CollectiveKind.ALLGATHER, load_system(system))
    price = fill_price(request, [PricedPlan(plan)], runtime=HEMIOLA)
    times = TileTimes(request, plan, HEMIOLA)
    length = min(times.tile_lengths(1))
    for elements in [number * length + rest for number in range(1, 48) for rest in (1, length // 2, length)]:
        if times.tile_lengths(elements) != times.tile_lengths(1):
            continue
        size = int(elements * times.unit)
        assert price(size) == pytest.approx(replay(plan, size, request, HEMIOLA).seconds, rel=0.02), size
