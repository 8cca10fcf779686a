"""Bounds: closed forms on uniform systems, examples by hand, and properties."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.bound_systems import GB, collectives_of, one_switch, ring_mesh, scaled, systems, two_levels
from hemiola.collectives import (
    KINDS,
    AllGather,
    AllReduce,
    AllToAll,
    AllToNext,
    Broadcast,
    Collective,
    Custom,
    Gather,
    Reduce,
    ReduceScatter,
    Scatter,
    SendRecv,
)
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.errors import TopologyError
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, Path, ProtocolCosts, System

S = 1 << 20
MOST = 60
"""Examples of a property; each bound takes about a millisecond."""


@pytest.mark.parametrize("n", [2, 3, 8])
def test_closed_forms_on_a_switch(n: int) -> None:
    b = 10 * GB
    expected = {
        "allreduce": 2 * (n - 1) / n * S,
        "allgather": (n - 1) / n * S,
        "reducescatter": (n - 1) / n * S,
        "alltoall": (n - 1) / n * S,
        "alltonext": S,
        "broadcast": S,
        "reduce": S,
        "gather": (n - 1) / n * S,
        "scatter": (n - 1) / n * S,
        "sendrecv": S,
    }
    assert set(expected) == set(KINDS) - {"custom"}
    for collective in collectives_of(n):
        bound = lower_bound(collective, S, one_switch(n, b))
        assert bound.seconds == pytest.approx(expected[collective.kind] / b)
        assert bound.term == "bandwidth"


@pytest.mark.parametrize(("hosts", "devices"), [(2, 4), (4, 8), (3, 1)])
def test_closed_forms_behind_nics(hosts: int, devices: int) -> None:
    n, nic = hosts * devices, 2 * GB
    system = two_levels(hosts, devices, nic, 1000 * GB)
    share = (hosts - 1) / hosts
    assert lower_bound(AllReduce(n), S, system).seconds == pytest.approx(2 * share * S / nic)
    assert lower_bound(AllGather(n), S, system).seconds == pytest.approx(share * S / nic)
    assert lower_bound(ReduceScatter(n), S, system).seconds == pytest.approx(share * S / nic)
    assert lower_bound(AllToAll(n), S, system).seconds == pytest.approx(share * devices * S / nic)


def test_several_links_of_a_unit_count_together() -> None:
    one, eight = (two_levels(2, 8, nic, 1000 * GB, num=num) for nic, num in ((8 * GB, 1), (1 * GB, 8)))
    for collective in collectives_of(16):
        first, second = lower_bound(collective, S, one), lower_bound(collective, S, eight)
        assert first.seconds == pytest.approx(second.seconds)


def test_a_slow_host_decides() -> None:
    """Three hosts at 4 GB/s and one at 1 GB/s out, 2 GB/s in: by hand, host 3 alone or all together."""
    system = replace(two_levels(4, 1, 4 * GB, 1000 * GB), exceptions={(3,): Link(1 * GB, 2 * GB)})
    bound = lower_bound(AllReduce(4), S, system)
    assert bound.seconds == pytest.approx(S / GB)
    assert "out of host 3" in bound.why
    assert lower_bound(AllGather(4), 4 * S, system).seconds == pytest.approx(3 * S / (2 * GB))
    assert lower_bound(Gather(4, root=3), 4 * S, system).seconds == pytest.approx(3 * S / (2 * GB))
    assert lower_bound(Scatter(4, root=3), S, system).seconds == pytest.approx(3 / 4 * S / GB)
    assert lower_bound(Broadcast(4, root=0), S, system).seconds == pytest.approx(S / (2 * GB))
    assert lower_bound(Reduce(4, root=0), S, system).seconds == pytest.approx(S / GB)


def test_all_links_together_bound_an_allreduce_of_uneven_hosts() -> None:
    """In and out of 1, 1 and 2 GB/s: none alone, 2 S over it, but 4 S over 4 GB/s together; both give S / GB/s."""
    system = replace(two_levels(3, 1, 1 * GB, 1000 * GB), exceptions={(2,): Link(1.5 * GB, 1.5 * GB)})
    bound = lower_bound(AllReduce(3), S, system)
    assert bound.seconds == pytest.approx(4 * S / (3.5 * GB))
    assert "together" in bound.why


def test_the_devices_of_one_host_and_its_nic() -> None:
    """Host 0 with eight devices at 5 GB/s behind 4 GB/s: 16 S pass between nine parts, over 8 x 5 + 4 GB/s, which
    is more than its NIC takes (S / 4), one of its devices (S / 5) or all devices (30 S / 120)."""
    slow: dict[Path, Link] = {(0, device): Link(5 * GB, 5 * GB) for device in range(8)}
    system = replace(two_levels(2, 8, 4 * GB, 10 * GB), exceptions=slow)
    bound = lower_bound(AllReduce(16), S, system)
    assert bound.seconds == pytest.approx(16 * S / (44 * GB))
    assert "the devices of host 0 and to all others" in bound.why


def test_missing_units_and_fewer_ranks_than_devices() -> None:
    system = replace(two_levels(4, 2, 1 * GB, 1000 * GB), missing=frozenset({(1,), (2, 0)}))
    assert system.num_ranks == 5
    assert lower_bound(AllReduce(5), S, system).seconds == pytest.approx(2 * 2 / 3 * S / GB)
    assert lower_bound(AllGather(5), 5 * S, system).seconds == pytest.approx(4 * S / GB)
    assert lower_bound(AllReduce(2), S, system).seconds == pytest.approx(S / (1000 * GB))


def test_latency_decides_for_small_data() -> None:
    system = System(
        "deep",
        (Level("host", 2, Link(GB, GB, 5e-6)), Level("device", 2, Link(10 * GB, 10 * GB, 1e-6))),
    )
    assert lower_bound(AllReduce(4), 1, system).seconds == pytest.approx(12e-6, rel=1e-3)
    assert lower_bound(SendRecv(4, source=0, destination=1), 1, system).seconds == pytest.approx(
        2e-6, rel=1e-3
    )
    assert lower_bound(AllToNext(4), 1, system).seconds == pytest.approx(12e-6, rel=1e-3)


def test_latency_in_a_ring_is_half_way_round() -> None:
    assert lower_bound(AllReduce(6), 1, ring_mesh(6, GB, 2e-6)).seconds == pytest.approx(6e-6, rel=1e-2)


def test_a_message_that_crosses_a_cut_pays_bytes_and_latency() -> None:
    bound = lower_bound(SendRecv(2, source=0, destination=1), S, one_switch(2, GB, 3e-6))
    assert bound.seconds == pytest.approx(S / GB + 6e-6)


def test_a_ring_of_direct_links() -> None:
    """Two links a device: all-gather of n S needs (n - 1) S over both."""
    assert lower_bound(AllGather(8), 8 * S, ring_mesh(8, GB)).seconds == pytest.approx(7 * S / (2 * GB))


def test_what_is_only_moved_through_a_ring_takes_a_link_for_every_hop() -> None:
    """Distances from a rank of eight sum to 16: 8 x 16 S / 8 over 16 links, against 7/8 S over 2 for one rank alone."""
    assert lower_bound(AllToAll(8), S, ring_mesh(8, GB)).seconds == pytest.approx(S / GB)
    # To the next, all but one over one hop each: no more than a link has to carry for one rank.
    assert lower_bound(AllToNext(8), S, ring_mesh(8, GB)).seconds == pytest.approx(S / (2 * GB))


def test_the_nic_of_the_only_host_carries_nothing() -> None:
    ring, nic = ring_mesh(8, GB).levels[0], Level("host", 1, Link(100 * GB, 100 * GB))
    for collective in collectives_of(8):
        alone = lower_bound(collective, S, ring_mesh(8, GB)).seconds
        assert lower_bound(collective, S, System("host", (nic, ring))).seconds == alone


def test_switches_that_add_and_multicast_lower_the_bound() -> None:
    plain, both = one_switch(8, GB), one_switch(8, GB, reduces=True, multicasts=True)
    only_adds, only_copies = one_switch(8, GB, reduces=True), one_switch(8, GB, multicasts=True)
    assert lower_bound(AllReduce(8), S, both).seconds == pytest.approx(S / GB)
    for system in (plain, only_adds, only_copies):
        assert lower_bound(AllReduce(8), S, system).seconds == pytest.approx(2 * 7 / 8 * S / GB)
    # Who gathers receives everything, whatever the switch does; who scatters sums sends everything.
    assert lower_bound(AllGather(8), 8 * S, both).seconds == pytest.approx(7 * S / GB)
    assert lower_bound(ReduceScatter(8), S, both).seconds == pytest.approx(7 / 8 * S / GB)


def test_a_switch_between_hosts_that_adds_leaves_the_inside_as_it_is() -> None:
    """The bound of devices inside a host without such a switch does not change where only the outer one adds."""
    system = two_levels(2, 8, 1000 * GB, 10 * GB)
    outer = replace(system.levels[0], fabric=Fabric(reduces=True, multicasts=True))
    changed = replace(system, levels=(outer, system.levels[1]))
    assert lower_bound(AllReduce(16), S, changed).seconds == pytest.approx(S / (10 * GB))
    inner = replace(system.levels[1], fabric=Fabric(reduces=True, multicasts=True))
    slow = two_levels(4, 8, GB, 1000 * GB)
    assert lower_bound(
        AllReduce(32), S, replace(slow, levels=(slow.levels[0], inner))
    ).seconds == pytest.approx(2 * 3 / 4 * S / GB)


def test_a_fabric_with_less_than_its_links() -> None:
    level = Level("device", 4, Link(10 * GB, 10 * GB), Fabric(bandwidth=4 * GB))
    assert lower_bound(AllToAll(4), S, System("thin", (level,))).seconds == pytest.approx(3 * S / (4 * GB))


def test_additions_decide_where_cores_are_slow() -> None:
    system = replace(one_switch(4, 1000 * GB), compute=Compute(add_bandwidth=2 * GB))
    bound = lower_bound(AllReduce(4), S, system)
    assert bound.term == "additions"
    assert bound.seconds == pytest.approx(3 * S / (8 * GB))
    shared = replace(system, compute=Compute(add_bandwidth=2 * GB, host_add_bandwidth=3 * GB))
    assert lower_bound(ReduceScatter(4), S, shared).seconds == pytest.approx(3 * S / (3 * GB))
    assert lower_bound(AllGather(4), S, shared).term == "bandwidth"


def test_a_protocol_makes_it_slower() -> None:
    system = one_switch(4, GB)
    found = lower_bound(AllGather(4), 4 * S, system, ProtocolCosts(efficiency=0.5, step_seconds=1e-3))
    assert found.seconds == pytest.approx(3 * S / (0.5 * GB) + 1e-3)


def test_a_custom_collective_counts_what_is_surely_independent() -> None:
    """Rank 0 gets both chunks of rank 1 as they are, rank 2 a sum of two of them: 2 chunks enter 0, 1 enters 2."""
    asked = Custom(
        input_chunks=[2, 2, 2],
        output_chunks=[2, 0, 1],
        promises={(0, 0): [(1, 0)], (0, 1): [(1, 1)], (2, 0): [(0, 0), (1, 0)]},
    )
    bound = lower_bound(asked, S, one_switch(3, GB))
    assert bound.seconds == pytest.approx(S / GB)
    assert "rank" not in bound.why


def test_nothing_to_do_takes_no_time() -> None:
    assert lower_bound(AllReduce(1), S, one_switch(1, GB)).seconds == 0
    assert lower_bound(AllReduce(4), 0, one_switch(4, GB, 1e-6)).seconds == 0


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(TopologyError, match="has 4 devices, but the allreduce has 5 ranks"):
        lower_bound(AllReduce(5), S, one_switch(4, GB))
    apart = Fabric("mesh", edges=(Edge(0, 1, GB), Edge(2, 3, GB)))
    with pytest.raises(TopologyError, match="no links lead from rank"):
        lower_bound(AllReduce(4), S, System("apart", (Level("device", 4, None, apart),)))


kinds = st.integers(0, 9)


def pick(system: System, kind: int) -> Collective | None:
    return collectives_of(system.num_ranks)[kind] if system.num_ranks > 1 else None


def connected(system: System) -> bool:
    """Where units of a mesh are missing, others may be cut off."""
    try:
        lower_bound(AllReduce(system.num_ranks), S, system)
    except TopologyError:
        return False
    return True


@settings(max_examples=MOST, deadline=None)
@given(systems(), kinds, st.integers(1, S), st.integers(0, S))
def test_more_bytes_never_lower_it(system: System, kind: int, num_bytes: int, more: int) -> None:
    collective = pick(system, kind)
    if collective is not None and connected(system):
        less = lower_bound(collective, num_bytes, system).seconds
        assert 0 < less <= lower_bound(collective, num_bytes + more, system).seconds


@settings(max_examples=MOST, deadline=None)
@given(systems(), kinds, st.sampled_from([2.0, 4.0, 0.5]))
def test_a_machine_k_times_as_fast_takes_a_kth(system: System, kind: int, factor: float) -> None:
    collective = pick(system, kind)
    if collective is not None and connected(system):
        slow, fast = (lower_bound(collective, S, one).seconds for one in (system, scaled(system, factor)))
        assert fast * factor == pytest.approx(slow)


@settings(max_examples=MOST, deadline=None)
@given(systems(), kinds, st.data())
def test_a_better_link_never_raises_it(system: System, kind: int, data: st.DataObject) -> None:
    collective = pick(system, kind)
    if collective is None or not connected(system):
        return
    paths = [
        path
        for depth, level in enumerate(system.levels, 1)
        if level.link is not None
        for path in system.units(depth)
    ]
    if paths:
        path = data.draw(st.sampled_from(paths))
        better = {**system.exceptions, path: system.link_of(path).scaled(2)}
        after = lower_bound(collective, S, replace(system, exceptions=better)).seconds
        assert after <= lower_bound(collective, S, system).seconds * (1 + 1e-12)


@settings(max_examples=MOST, deadline=None)
@given(systems(), kinds, st.booleans(), st.booleans())
def test_help_from_switches_never_raises_it(
    system: System, kind: int, reduces: bool, multicasts: bool
) -> None:
    collective = pick(system, kind)
    if collective is None or not connected(system):
        return
    helped = tuple(
        replace(level, fabric=replace(level.fabric, reduces=reduces, multicasts=multicasts))
        for level in system.levels
    )
    before = lower_bound(collective, S, system).seconds
    assert lower_bound(collective, S, replace(system, levels=helped)).seconds <= before
