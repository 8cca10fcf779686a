"""Load: the bytes on every link by counting, and closed forms for rings and hierarchies."""

from __future__ import annotations

import numpy as np
import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.cost.estimates.wire_time import busiest_link, chunks_between, link_bytes
from hemiola.ir.plan import Plan
from hemiola.topology.network import network_of
from hemiola.topology.shapes import load_shape

MIB = 1 << 20


def built(algorithm: str, **parameters: object) -> Plan:
    return compile_program(ALGORITHMS[algorithm].build(**parameters)).plan


@pytest.mark.parametrize(("shape", "hosts", "local"), [("2x4", 2, 4), ("4x2", 4, 2), ("4x4", 4, 4)])
def test_what_passes_an_interface_is_what_the_closed_forms_say(shape: str, hosts: int, local: int) -> None:
    network, ranks = network_of(load_shape(shape)), hosts * local
    rate = network.system.link_of((0,)).bandwidth_out
    ring = built("allreduce_ring", ranks=ranks, in_place=True)
    seconds, link = busiest_link(ring, MIB, network)
    assert seconds == pytest.approx(2 * (ranks - 1) / ranks * MIB / rate)
    assert network.name(link).startswith("NIC 0 of host")
    levels = {"levels": (hosts, local), "inside": "ring", "across": "ring"}
    hierarchical = built("allreduce_hierarchical", ranks=ranks, in_place=True, **levels)
    assert busiest_link(hierarchical, MIB, network)[0] == pytest.approx(2 * (hosts - 1) / hosts * MIB / rate)
    exchange = built("alltoall_allpairs", ranks=ranks)
    assert busiest_link(exchange, MIB, network)[0] == pytest.approx(local * (hosts - 1) / hosts * MIB / rate)


def test_every_byte_is_on_every_link_of_its_route() -> None:
    network = network_of(load_shape("2racks-2x2"))
    plan = built("allreduce_halving_doubling", ranks=8, in_place=True)
    expected = np.zeros(network.num_links)
    chunk = MIB / plan.collective.input_chunks(0)
    for src, dst, chunks in zip(*chunks_between(plan), strict=True):
        for link in network.route(int(src), int(dst)):
            expected[link] += chunks * chunk
    assert link_bytes(plan, MIB, network) == pytest.approx(expected)


def test_groups_put_the_sum_of_their_bytes_on_every_link() -> None:
    """Two rings of four, each over both hosts: what each puts on the links alone, added up."""
    network, plan = network_of(load_shape("2x4")), built("allreduce_ring", ranks=4, in_place=True)
    groups = [[0, 1, 4, 5], [2, 3, 6, 7]]
    alone = [link_bytes(plan, MIB, network, [group]) for group in groups]
    together = link_bytes(plan, MIB, network, groups)
    assert together == pytest.approx(alone[0] + alone[1])
    assert (together > np.maximum(*alone)).any()
    rate = network.system.link_of((0,)).bandwidth_out
    assert busiest_link(plan, MIB, network, groups)[0] == pytest.approx(2 * 2 * 3 / 4 * MIB / rate)


def test_a_plan_of_fewer_ranks_is_on_the_first_devices() -> None:
    network, plan = network_of(load_shape("2x4")), built("allreduce_ring", ranks=4, in_place=True)
    found = link_bytes(plan, MIB, network)
    assert found.tolist() == link_bytes(plan, MIB, network, [range(4)]).tolist()
    names = [network.name(link) for link in np.flatnonzero(found).tolist()]
    assert names
    assert not any("NIC" in name for name in names)
