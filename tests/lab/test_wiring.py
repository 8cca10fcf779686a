"""Wiring: every host gets its interfaces, every rack its uplink, and what cannot be built is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hemiola.errors import TopologyError
from hemiola.lab import commands
from hemiola.lab.picture import draw
from hemiola.lab.shape import Shape, with_delay
from hemiola.lab.wiring import wire
from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.shapes import load_shape, shape_names, shape_text


@pytest.mark.parametrize("name", shape_names())
def test_every_shipped_shape_can_be_built(name: str, golden: Callable[[str, str], None]) -> None:
    """The picture and all commands, to be read."""
    system = load_shape(name)
    wiring = wire(system)
    hosts = [f"<{name}>" for name in wiring.host_names]
    parts = [
        draw(system),
        *commands.fabric_commands(wiring, hosts),
        *commands.fabric_shaping(wiring),
        *(
            line
            for number, host in enumerate(hosts)
            for line in (
                host,
                *commands.host_commands(wiring.nics_of(number)),
                *commands.host_shaping(wiring.nics_of(number)),
            )
        ),
    ]
    golden(f"lab/{name}.txt", "\n".join(parts) + "\n")


@pytest.mark.parametrize("name", shape_names())
def test_addresses_and_devices_are_different(name: str) -> None:
    wiring = wire(load_shape(name))
    addresses = [nic.address for nic in wiring.nics]
    assert len(set(addresses)) == len(addresses)
    cables = [cable.name for cable in wiring.cables]
    assert len(set(cables)) == len(cables)
    for cable in wiring.cables:
        assert cable.switch in wiring.switches
        assert all(len(name) <= 15 for name in (*commands.taps_of(cable), commands.port_of(cable)))


def test_devices_have_short_names_however_deep_the_racks_are() -> None:
    levels = ", ".join(f"{{name: r{depth}, count: 2, link: {{bandwidth: 1GB/s}}}}" for depth in range(6))
    hosts = (
        "{name: host, count: 1, link: {bandwidth: 1GB/s}}, {name: rank, count: 1, link: {bandwidth: 1GB/s}}"
    )
    wiring = wire(read_system(f"levels: [{levels}, {hosts}]", "deep"))
    names = [*wiring.switches, *(commands.lower_end_of(uplink.cable) for uplink in wiring.uplinks)]
    assert len(set(names)) == len(names)
    assert max(map(len, [*names, *(commands.port_of(cable) for cable in wiring.cables)])) <= 15


def test_a_delay_is_shared_by_the_links_of_both_hosts() -> None:
    system = Shape("4x4", shape_text("4x4"), 2e-3).system()
    assert {nic.cable.delay_seconds for nic in wire(system).nics} == {1e-3}
    uneven = with_delay(load_shape("uneven-4x2"), 4e-3)
    nics = wire(uneven).nics
    assert [nic.cable.rate_up for nic in nics] == [25e6, 25e6, 25e6, 6.25e6]
    assert {nic.cable.delay_seconds for nic in nics} == {2e-3}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("levels: [{name: rank, count: 4, link: {bandwidth: 1GB/s}}]", "it is one host"),
        (
            "levels: [{name: host, count: 1, link: {bandwidth: 1GB/s}}, {name: rank, count: 4, link: {bandwidth: 1GB/s}}]",
            "it has 1 hosts, and the lab takes 2 to 200",
        ),
        (
            "levels: [{name: host, count: 2, fabric: {kind: mesh, edges: [{between: [0, 1], bandwidth: 1GB/s}]}}, "
            "{name: rank, count: 4, link: {bandwidth: 1GB/s}}]",
            "its hosts are joined by a mesh",
        ),
        (
            "levels: [{name: host, count: 2, link: {bandwidth: 1GB/s}, fabric: {kind: switch, bandwidth: 1GB/s}}, "
            "{name: rank, count: 4, link: {bandwidth: 1GB/s}}]",
            "has a bandwidth of its own",
        ),
        (
            "levels: [{name: rack, count: 2, link: {bandwidth: 1GB/s}}, "
            "{name: host, count: 2, link: {bandwidth: 1GB/s, num: 2}, fabric: rails}, "
            "{name: rank, count: 4, link: {bandwidth: 1GB/s}}]",
            "rails inside of racks",
        ),
        (
            "levels: [{name: rack, count: 2, link: {bandwidth: 1GB/s, num: 2}}, "
            "{name: host, count: 2, link: {bandwidth: 1GB/s}}, {name: rank, count: 4, link: {bandwidth: 1GB/s}}]",
            "its racks have several uplinks",
        ),
        (
            "levels: [{name: host, count: 2, link: {bandwidth: 1GB/s, num: 2}}, "
            "{name: rank, count: 4, link: {bandwidth: 1GB/s}}]",
            "fabric: rails",
        ),
        (
            "levels: [{name: host, count: 2, link: {bandwidth: 1GB/s, num: 17}, fabric: rails}, "
            "{name: rank, count: 4, link: {bandwidth: 1GB/s}}]",
            "at most 16 network interfaces",
        ),
        (
            "levels: [{name: host, count: 2, link: {bandwidth: 1GB/s, latency: 2s}}, "
            "{name: rank, count: 4, link: {bandwidth: 1GB/s}}]",
            "delays by at most 1 s",
        ),
        (
            "levels: [{name: host, count: 2, link: {bandwidth: 1GB/s, num: 2}, fabric: rails}, "
            "{name: rank, count: 4, link: {bandwidth: 1GB/s}}]\nexceptions: [{host: 1, link: {num: 1}}]",
            "different numbers of network interfaces",
        ),
        (
            "levels: [{name: host, count: 2, link: {bandwidth: 1GB/s}}, {name: rank, count: 1, link: {bandwidth: 1GB/s}}]\n"
            f"host_names: [a, {'b' * 64}]",
            "up to 63 letters",
        ),
    ],
)
def test_what_the_lab_cannot_build_is_said_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(TopologyError, match=rf"^the lab cannot build this: .*{sentence}"):
        wire(read_system(text, "this"))
