"""Networks: every route leaves and enters each unit once, through the right link, and has a name for each hop."""

from __future__ import annotations

from itertools import pairwise, permutations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from hemiola.errors import TopologyError
from hemiola.topology.network import network_of, shortest_path
from hemiola.topology.shapes import load_shape, shape_names
from hemiola.topology.system import Edge, Fabric, Level, Link, ProtocolCosts, System
from simulator.scenes import systems


def names(system: System, src: int, dst: int) -> list[str]:
    network = network_of(system)
    return [network.name(link) for link in network.route(src, dst)]


def test_from_the_device_up_and_down_again() -> None:
    assert names(load_shape("2racks-2x2"), 0, 7) == [
        "link of rank 0 of host 0 of rack 0, out",
        "NIC 0 of host 0 of rack 0, out",
        "uplink of rack 0",
        "downlink of rack 1",
        "NIC 0 of host 1 of rack 1, in",
        "link of rank 1 of host 1 of rack 1, in",
    ]
    assert names(load_shape("2x4"), 1, 3) == ["link of rank 1 of host 0, out", "link of rank 3 of host 0, in"]
    assert names(load_shape("2x4"), 2, 2) == []


def test_several_links_are_chosen_by_digits_and_in_rails_by_the_destination() -> None:
    def system(kind: str) -> System:
        fabric = Fabric("rails" if kind == "rails" else "switch")
        return System(
            kind, (Level("host", 2, Link(1e9, 2e9, num=2), fabric), Level("device", 3, Link(1e9, 1e9)))
        )

    assert names(system("switch"), 2, 4)[1:3] == ["NIC 0 of host 0, out", "NIC 1 of host 1, in"]
    assert names(system("rails"), 2, 4)[1:3] == ["NIC 1 of host 0, out", "NIC 1 of host 1, in"]


def test_a_device_spreads_over_all_its_links() -> None:
    network = network_of(System("one", (Level("device", 2, Link(1e9, 2e9, 1e-6, num=12)),)))
    assert network.capacities.tolist() == [12e9, 24e9, 12e9, 24e9]
    assert network.latencies.tolist() == [1e-6] * 4


def test_a_fabric_with_a_bandwidth_is_passed_by_all_that_goes_through_it() -> None:
    system = System(
        "narrow",
        (Level("host", 2, Link(1e9, 1e9)), Level("device", 2, Link(1e9, 1e9), Fabric(bandwidth=5e8))),
    )
    assert names(system, 0, 1)[1] == "fabric of the devices of host 0"
    assert names(system, 0, 2)[1] == "fabric of the devices of host 0"
    assert names(system, 0, 2)[-2] == "fabric of the devices of host 1"


def test_exceptions_missing_units_and_a_protocol() -> None:
    system = System(
        "uneven",
        (Level("host", 3, Link(4e9, 4e9)), Level("device", 2, Link(8e9, 8e9))),
        exceptions={(2,): Link(1e9, 1e9, num=2), (0, 1): Link(2e9, 2e9)},
        missing=frozenset({(1,)}),
    )
    network = network_of(system, ProtocolCosts(efficiency=0.5))
    assert network.capacities[list(network.route(1, 3))].tolist() == [1e9, 2e9, 0.5e9, 4e9]
    assert [network.name(link) for link in network.route(1, 3)][2] == "NIC 1 of host 2, in"
    assert network.num_links == 2 * (1 + 2 + 4)


def test_a_mesh_takes_the_fewest_then_the_widest_then_the_lowest() -> None:
    square = [Edge(0, 1, 1e9), Edge(1, 2, 2e9), Edge(2, 3, 1e9), Edge(3, 0, 3e9)]
    assert shortest_path(square, 0, 2) == [0, 2]
    assert shortest_path([Edge(0, 1, 1e9), *square[1:2], Edge(2, 3, 2e9), square[3]], 0, 2) == [7, 5]
    assert shortest_path(square, 2, 0) == [3, 1]
    assert shortest_path([None, *square[1:]], 0, 1) == [7, 5, 3]
    assert shortest_path([], 0, 1) is None
    assert shortest_path([Edge(0, 1, 1e9), Edge(1, 0, 2e9)], 0, 1) == [
        3
    ]  # the wider of two beside each other


def test_a_mesh_inside_hosts_is_left_without_crossing_it() -> None:
    system = System(
        "mesh",
        (
            Level("host", 2, Link(1e9, 1e9)),
            Level("gpu", 3, None, Fabric("mesh", edges=(Edge(0, 1, 5e9), Edge(1, 2, 5e9)))),
        ),
        missing=frozenset({(1, 1)}),
    )
    assert names(system, 2, 0) == ["link from gpu 2 to 1 of host 0", "link from gpu 1 to 0 of host 0"]
    assert names(system, 2, 3) == ["NIC 0 of host 0, out", "NIC 0 of host 1, in"]
    with pytest.raises(TopologyError, match="no edges lead from gpu 0 of host 1 to gpu 2 of host 1"):
        names(system, 3, 4)


def test_ranks_that_are_not_there() -> None:
    with pytest.raises(TopologyError, match=r"ranks 0 to 7.*rank 8"):
        network_of(load_shape("2x4")).route(0, 8)
    with pytest.raises(TopologyError, match="links 0 to 19"):
        network_of(load_shape("2x4")).name(20)


@settings(max_examples=50, deadline=None)
@given(system=systems())
def test_routes_use_each_link_once_and_both_ways_are_as_long(system: System) -> None:
    network = network_of(system)
    every = [(src, dst) for src in range(system.num_ranks) for dst in range(system.num_ranks)]
    first, links = network.routes([src for src, _ in every], [dst for _, dst in every])
    for number, (src, dst) in enumerate(every):
        route = links[first[number] : first[number + 1]].tolist()
        assert tuple(route) == network.route(src, dst)
        assert len(set(route)) == len(route)
        assert (len(route) == 0) == (src == dst)
    assert len({network.name(link) for link in range(network.num_links)}) == network.num_links


@settings(max_examples=100, deadline=None)
@given(
    pairs=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda p: p[0] < p[1]), min_size=1),
    data=st.data(),
)
def test_paths_through_meshes_are_the_best_of_all(pairs: set[tuple[int, int]], data: st.DataObject) -> None:
    edges = [Edge(a, b, data.draw(st.sampled_from([1.0, 2.0, 3.0]))) for a, b in sorted(pairs)]
    widths = {(a, b): edge.bandwidth for edge in edges for a, b in permutations((edge.first, edge.second))}
    start, end = data.draw(st.permutations(range(6)))[:2]
    found = shortest_path(list(edges), start, end)
    paths = [
        (start, *between, end)
        for number in range(5)
        for between in permutations(set(range(6)) - {start, end}, number)
        if all(hop in widths for hop in pairwise((start, *between, end)))
    ]
    if not paths:
        assert found is None
        return
    best = min((len(path), -min(widths[hop] for hop in pairwise(path)), path) for path in paths)
    assert found is not None
    walked = [start]
    for hop in found:
        edge = edges[hop // 2]
        assert walked[-1] == (edge.second if hop % 2 else edge.first)
        walked.append(edge.first if hop % 2 else edge.second)
    assert tuple(walked) == best[2]


@pytest.mark.parametrize("name", shape_names())
def test_every_shape_has_a_network(name: str) -> None:
    network = network_of(load_shape(name))
    assert np.all(network.capacities > 0)
    assert network.route(0, 1)
