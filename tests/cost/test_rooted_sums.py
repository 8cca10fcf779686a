"""The best rate of an all-reduce: closed forms, and never faster than the bound or slower than scattering and gathering."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from cost.bound_systems import GB, one_switch, ring_mesh, systems, two_levels
from cost.rooted_sums import allreduce_rate
from hemiola.collectives import AllReduce
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.bounds.throughput import Graph, allgather_rate, graph_of, reducescatter_rate
from hemiola.errors import LimitError, TopologyError
from hemiola.topology.rescale import without_latency
from hemiola.topology.system import Compute, Fabric, Level, Link, System


@pytest.mark.parametrize("n", [2, 3, 8])
def test_closed_forms(n: int) -> None:
    assert allreduce_rate(graph_of(one_switch(n, GB))) == pytest.approx(GB * n / (2 * (n - 1)))
    assert allreduce_rate(graph_of(ring_mesh(n, GB))) == pytest.approx(GB * n / (n - 1))


def test_hosts_behind_slow_nics() -> None:
    for hosts in (2, 4):
        graph = graph_of(two_levels(hosts, 2, GB, 100 * GB))
        assert allreduce_rate(graph) == pytest.approx(GB * hosts / (2 * (hosts - 1)))


def test_boxes_of_a100() -> None:
    """The same cut around a rank that decides the all-gather decides here: 16 / 30 of 325 GB/s."""
    graph = graph_of(two_levels(2, 8, 25 * GB, 325 * GB, num=8))
    assert allreduce_rate(graph) == pytest.approx(325 * GB * 16 / 30)


def test_one_fast_rank_is_the_root_of_everything() -> None:
    """Star: the hub takes from and gives to every other at 1 GB/s at once, where equal shares reach 2/3."""
    links = {ends: GB for leaf in range(1, 4) for ends in ((0, leaf), (leaf, 0))}
    graph = Graph.of(4, (0, 1, 2, 3), links)
    assert allreduce_rate(graph) == pytest.approx(GB)
    equal = 1 / allgather_rate(graph).bytes_per_second + 1 / reducescatter_rate(graph).bytes_per_second
    assert 4 / equal == pytest.approx(2 / 3 * GB)


@settings(max_examples=60, deadline=None)
@given(systems())
def test_between_the_bound_and_scattering_and_gathering(system: System) -> None:
    n, num_bytes = system.num_ranks, 1 << 20
    if not 2 <= n <= 12:
        return
    free = System(system.name, tuple(map(unshared, system.levels)), exceptions=system.exceptions,
                  missing=system.missing, compute=Compute())  # fmt: skip
    still = without_latency(free)
    graph = graph_of(still)
    rate = allreduce_rate(graph)
    try:
        bound = lower_bound(AllReduce(n), num_bytes, still).seconds
    except TopologyError:
        assert rate == pytest.approx(0, abs=1)
        return
    assert num_bytes / rate >= bound * (1 - 1e-6)
    # The ways in and out of a mesh send at other rates than they receive, so not every flow is a packing of trees.
    meshed = any(level.link is None for level in still.levels[1:])
    if not meshed and all(link.bandwidth_in == link.bandwidth_out for link in links_of(still)):
        equal = 1 / allgather_rate(graph).bytes_per_second + 1 / reducescatter_rate(graph).bytes_per_second
        assert rate >= n / equal * (1 - 1e-6)


def links_of(system: System) -> list[Link]:
    return [*system.exceptions.values(), *(level.link for level in system.levels if level.link is not None)]


def unshared(level: Level) -> Level:
    """The same without a bandwidth of the fabric, which a graph of links does not have."""
    return level if level.link is None else Level(level.name, level.count, level.link, Fabric())


def test_what_cannot_be_computed_is_said() -> None:
    with pytest.raises(TopologyError, match="two ranks or more"):
        allreduce_rate(Graph.of(1, (0,), {}))
    large = System("large", (Level("device", 200, Link(GB, GB)),))
    with pytest.raises(LimitError, match="50000 ranks times links"):
        allreduce_rate(graph_of(large))
    assert allreduce_rate(Graph.of(2, (0, 1), {})) == 0
