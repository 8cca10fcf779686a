"""Throughput by maximum flow: published optima, closed forms, and all cuts of small graphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.bound_systems import GB, one_switch, ring_mesh, systems, two_levels
from hemiola.collectives import AllGather, ReduceScatter
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.bounds.throughput import (
    Graph,
    allgather_rate,
    graph_of,
    reducescatter_rate,
)
from hemiola.errors import TopologyError
from hemiola.topology.rescale import without_latency
from hemiola.topology.system import Compute, Fabric, Level, Link, System


def boxes(num: int) -> Graph:
    """Boxes of eight A100: 300 GB/s each to the box's switch, 25 GB/s each to a switch for all."""
    links: dict[tuple[int, int], float] = {}
    top = num * 8
    for gpu in range(num * 8):
        for switch, bandwidth in ((top, 25 * GB), (top + 1 + gpu // 8, 300 * GB)):
            links[gpu, switch] = links[switch, gpu] = bandwidth
    return Graph.of(top + 1 + num, tuple(range(num * 8)), links)


@pytest.mark.parametrize(("num", "gigabytes"), [(2, 346.7), (4, 266.7)])
def test_published_optima_of_a100_boxes(num: int, gigabytes: float) -> None:
    rate = allgather_rate(boxes(num))
    assert rate.gathered_per_second(num * 8) / GB == pytest.approx(gigabytes, abs=0.05)
    assert reducescatter_rate(boxes(num)).bytes_per_second == pytest.approx(rate.bytes_per_second)


def test_a_system_of_the_same_cuts_has_the_same_optima() -> None:
    """A device whose own link carries its 300 + 25 GB/s, behind a box of eight times 25 GB/s."""
    for num, expected in ((2, 346.7), (4, 266.7)):
        graph = graph_of(two_levels(num, 8, 25 * GB, 325 * GB, num=8))
        assert allgather_rate(graph).gathered_per_second(num * 8) / GB == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_closed_forms(n: int) -> None:
    switch, ring = graph_of(one_switch(n, GB)), graph_of(ring_mesh(n, GB))
    assert allgather_rate(switch).bytes_per_second == pytest.approx(GB / (n - 1))
    assert allgather_rate(ring).bytes_per_second == pytest.approx(2 * GB / (n - 1))


def test_the_set_that_decides_is_named() -> None:
    """Two pairs of ranks joined by a thin link: out of a pair, 2 x must pass over it."""
    links = {(0, 1): 10.0, (1, 0): 10.0, (2, 3): 10.0, (3, 2): 10.0, (1, 2): 1.0, (2, 1): 0.5}
    rate = allgather_rate(Graph.of(4, (0, 1, 2, 3), links))
    assert (rate.bytes_per_second, rate.inside) == (0.25, frozenset({2, 3}))


def test_ranks_that_cannot_reach_each_other_have_no_rate() -> None:
    assert allgather_rate(Graph.of(3, (0, 1, 2), {(0, 1): 1.0, (1, 0): 1.0})).bytes_per_second == 0


def test_one_rank_has_no_rate() -> None:
    with pytest.raises(TopologyError, match="two ranks or more"):
        allgather_rate(Graph.of(1, (0,), {}))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    num = draw(st.integers(2, 7))
    ranks = tuple(sorted(draw(st.sets(st.integers(0, num - 1), min_size=2))))
    pairs = [(src, dst) for src in range(num) for dst in range(num) if src != dst]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True))
    return Graph.of(num, ranks, {pair: float(draw(st.integers(1, 12))) for pair in chosen})


def by_all_cuts(graph: Graph) -> float:
    """The least quotient over every set of vertices."""
    least = np.inf
    for size in range(1, graph.num_vertices):
        for chosen in combinations(range(graph.num_vertices), size):
            inside = np.isin(np.arange(graph.num_vertices), chosen)
            num_ranks = int(inside[list(graph.ranks)].sum())
            if 0 < num_ranks < len(graph.ranks):
                least = min(least, graph.leaving(inside) / num_ranks)
    return float(least)


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_flows_agree_with_all_cuts(graph: Graph) -> None:
    assert allgather_rate(graph).bytes_per_second == pytest.approx(by_all_cuts(graph))
    assert reducescatter_rate(graph).bytes_per_second == pytest.approx(by_all_cuts(graph.reversed()))


@settings(max_examples=50, deadline=None)
@given(systems(), st.booleans())
def test_no_bound_is_below_the_rate_and_on_even_switches_they_are_equal(system: System, even: bool) -> None:
    n, num_bytes = system.num_ranks, 1 << 30
    if even:
        system = evened(system)
    if n < 2:
        return
    graph = graph_of(system)
    rates = (allgather_rate(graph).bytes_per_second * n, reducescatter_rate(graph).bytes_per_second * n)
    for collective, rate in zip((AllGather(n), ReduceScatter(n)), rates, strict=True):
        try:
            bound = lower_bound(collective, num_bytes, system)
        except TopologyError:
            assert rate == 0
            return
        assert bound.seconds >= num_bytes / rate * (1 - 1e-6)
        if even and bound.term == "bandwidth":
            still = lower_bound(collective, num_bytes, without_latency(system))  # rates know of no latency
            assert still.seconds == pytest.approx(num_bytes / rate, rel=1e-6)


def evened(system: System) -> System:
    """The same with links as fast in as out, switches that limit nothing, and no rails."""

    def link(one: Link) -> Link:
        return replace(one, bandwidth_in=one.bandwidth_out)

    def level(one: Level) -> Level:
        fabric = one.fabric if one.link is None else Fabric()
        return replace(one, link=one.link and link(one.link), fabric=fabric)

    exceptions = {path: link(one) for path, one in system.exceptions.items()}
    return replace(system, levels=tuple(map(level, system.levels)), exceptions=exceptions, compute=Compute())
