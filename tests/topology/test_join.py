"""A host and the switches between hosts, joined."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.errors import TopologyError
from hemiola.topology.host_facts import HostFacts, Nic
from hemiola.topology.inside_host import Given
from hemiola.topology.join import join
from hemiola.topology.nics import nearest_nics
from hemiola.topology.parse.nccl_xml import read_nccl_xml
from hemiola.topology.parse.nvidia_topo import read_nvidia_topo
from hemiola.topology.parse.slurm import Switch, read_topology_conf
from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.system import Edge, Fabric, Level, Link
from hemiola.topology.write_system import write_system
from topology.host_texts import (
    PCI_XML,
    THREE_LEAVES,
    TOPO_TEXT,
    every_pair,
    mesh_xml,
    nvswitch_xml,
    topo_text,
)

SHARED = Path(__file__).parents[3] / "shared" / "data" / "nccl-topo"
SWITCHED = read_nccl_xml(nvswitch_xml(4), "host.xml")
UPLINK = Given(uplink_bandwidths=(8e11,))


def test_hosts_on_one_switch() -> None:
    joined = join("two", SWITCHED, (), ("a", "b"))
    system = joined.system
    assert system.levels == (
        Level("host", 2, Link(25e9, 25e9, num=4)),
        Level("gpu", 4, Link(300e9, 300e9)),
    )
    assert (system.name, system.host_names, system.about) == ("two", ("a", "b"), "from host.xml")
    assert joined.notes[0] == "left out, because every device uses another NIC: storage"
    assert "latencies are 0" in joined.notes[1]


def test_one_host_needs_no_network() -> None:
    system = join("one", read_nccl_xml(PCI_XML), (), ("a",), Given(device_bandwidth=3e11)).system
    assert system.levels == (Level("gpu", 2, Link(3e11, 3e11)),)
    assert system.num_hosts == 1


def test_64_hosts_spread_over_leaves_of_21_22_and_21() -> None:
    system = join("c", SWITCHED, read_topology_conf(THREE_LEAVES), (), UPLINK).system
    assert [(level.name, level.count) for level in system.levels] == [("leaf", 3), ("host", 22), ("gpu", 4)]
    assert system.missing == {(0, 21), (2, 21)}
    assert (system.num_hosts, system.num_ranks) == (64, 256)
    assert system.host_names == tuple(f"gpu{n:03d}" for n in range(1, 65))
    assert [sum(host[0] == leaf for host in system.hosts) for leaf in range(3)] == [21, 22, 21]
    assert system.levels[0].link == Link(8e11, 8e11)
    assert read_system(write_system(system)) == system


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=4))
def test_every_host_of_a_tree_is_there_once_under_its_switch(tree: list[list[int]]) -> None:
    leaves: dict[str, str] = {}
    spines = []
    for s, sizes in enumerate(tree):
        below = []
        for n, size in enumerate(sizes):
            hosts = tuple(f"h{s}.{n}.{h}" for h in range(size))
            leaves.update(dict.fromkeys(hosts, f"l{s}.{n}"))
            below.append(Switch(f"l{s}.{n}", hosts=hosts))
        spines.append(Switch(f"s{s}", tuple(below)))
    top = (Switch("top", tuple(spines)),)
    if not leaves:
        with pytest.raises(TopologyError, match="there is no host on any switch"):
            join("t", SWITCHED, top, (), Given(uplink_bandwidths=(1e9, 1e9)))
        return
    system = join("t", SWITCHED, top, (), Given(uplink_bandwidths=(1e9, 1e9))).system
    assert system.host_names == tuple(leaves)
    if len(leaves) == 1:
        assert system.num_ranks == 4
        return
    units: dict[str, tuple[int, ...]] = {}
    for host, path in zip(system.host_names, system.hosts, strict=True):
        assert units.setdefault(leaves[host], path[:-1]) == path[:-1]
    assert len(set(units.values())) == len(units)


def test_a_part_of_the_hosts() -> None:
    switches = read_topology_conf(THREE_LEAVES)
    one_leaf = join("part", SWITCHED, switches, ("gpu003", "gpu001")).system
    assert [level.name for level in one_leaf.levels] == ["host", "gpu"]
    assert one_leaf.host_names == ("gpu001", "gpu003")
    two_leaves = join("part", SWITCHED, switches, ("gpu001", "gpu064", "gpu063"), UPLINK).system
    assert [(level.name, level.count) for level in two_leaves.levels[:2]] == [("leaf", 2), ("host", 2)]
    assert two_leaves.missing == {(0, 1)}


def test_rails_latencies_and_other_figures() -> None:
    given = Given(
        rails=True,
        nic_bandwidth=1e9,
        nic_latency=1e-6,
        device_latency=2e-6,
        uplink_bandwidths=(5e9,),
        uplink_latency=3e-6,
    )
    joined = join("c", SWITCHED, read_topology_conf(THREE_LEAVES), (), given)
    leaf, host, gpu = joined.system.levels
    assert leaf.link == Link(5e9, 5e9, 3e-6)
    assert (host.link, host.fabric.kind) == (Link(1e9, 1e9, 1e-6, 4), "rails")
    assert gpu.link == Link(300e9, 300e9, 2e-6)
    assert not any("latencies" in note for note in joined.notes)


def test_a_mesh_inside_hosts() -> None:
    host = read_nccl_xml(mesh_xml([(0, 1, 2), (1, 2, 1), (2, 3, 2), (0, 3, 1)]))
    system = join("m", host, (), ("a", "b")).system
    edges = (Edge(0, 1, 50e9), Edge(0, 3, 25e9), Edge(1, 2, 25e9), Edge(2, 3, 50e9))
    assert system.levels[1] == Level("gpu", 4, None, Fabric("mesh", edges=edges))
    assert system.levels[0].link == Link(12.5e9, 12.5e9)


def test_islands_are_joined_by_pcie() -> None:
    host = read_nccl_xml(mesh_xml([(0, 2, 4), (1, 3, 4)]))
    joined = join("i", host, (), ("a", "b"))
    host_level, island, gpu = joined.system.levels
    pcie = 15.75e9
    assert island == Level("island", 2, Link(pcie, pcie, num=2))
    assert gpu == Level("gpu", 2, None, Fabric("mesh", edges=(Edge(0, 1, 100e9),)))
    assert host_level.count == 2
    assert joined.system.num_hosts == 2
    assert joined.notes[0] == "2 islands of 2 devices, joined by PCIe; ranks are on devices 0, 2, 1, 3"


def test_devices_choose_the_nearest_nic_and_share_what_is_equally_near() -> None:
    nics = tuple(Nic(name, 1e9) for name in "abcd")
    host = replace(SWITCHED, nics=nics, distances=((5, 5, 9, 9), (1, 5, 9, 9), (9, 9, 5, 5), (9, 9, 5, 5)))
    link = join("n", host, (), ("x", "y")).system.levels[0].link
    assert link == Link(1e9, 1e9, num=4, behind=(1, 0, 2, 3))
    shared = replace(SWITCHED, nics=nics, distances=((1, 2, 3, 4), (1, 2, 3, 4), (4, 3, 2, 1), (4, 3, 2, 1)))
    assert join("n", shared, (), ("x", "y")).system.levels[0].link == Link(
        1e9, 1e9, num=2, behind=(0, 0, 1, 1)
    )


def test_several_nics_of_a_device_are_one_link() -> None:
    nics = tuple(Nic(f"n{n}", 1e9) for n in range(8))
    near = tuple(tuple(1 if nic // 2 == device else 5 for nic in range(8)) for device in range(4))
    joined = join("n", replace(SWITCHED, nics=nics, distances=near), (), ("x", "y"))
    assert joined.system.levels[0].link == Link(2e9, 2e9, num=4)
    assert joined.notes[0] == "each link of a host to the network is 2 NICs together"
    uneven = tuple((*row[:7], 9) for row in near)
    joined = join("n", replace(SWITCHED, nics=nics, distances=uneven), (), ("x", "y"))
    assert joined.system.levels[0].link == Link(1e9, 1e9, num=4)
    assert joined.notes[0] == "left out, because every device uses another NIC: n1, n3, n5, n7"


@settings(deadline=None)
@given(
    st.integers(1, 8).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=8)
    )
)
def test_every_device_has_one_of_the_nearest_nics(distances: list[list[int]]) -> None:
    nics = tuple(Nic(f"n{n}", 1e9) for n in range(len(distances[0])))
    host = replace(
        SWITCHED,
        devices=tuple(map(str, range(len(distances)))),
        nics=nics,
        distances=tuple(map(tuple, distances)),
    )
    use = nearest_nics(host)
    for device, row in enumerate(distances):
        assert row[use.bundles[use.link_of_device[device]][0]] == min(row)
    assert set(use.link_of_device) == set(range(len(use.bundles)))
    assert len(set(map(len, use.bundles))) == 1
    assert len({nic for bundle in use.bundles for nic in bundle}) == sum(map(len, use.bundles))


def test_uplinks_that_are_not_needed_are_noted() -> None:
    joined = join("n", SWITCHED, read_topology_conf(THREE_LEAVES), (), Given(uplink_bandwidths=(1e9, 2e9)))
    assert "2 uplink bandwidths are given, 1 used: one for each level of switches" in joined.notes


def test_a_matrix_of_nvidia_smi() -> None:
    host = read_nvidia_topo(TOPO_TEXT, "topo.txt")
    given = Given(link_bandwidth=25e9, nic_bandwidth=25e9)
    joined = join("t", host, (), ("a", "b"), given)
    assert joined.system.levels == (
        Level("host", 2, Link(25e9, 25e9, num=8)),
        Level("gpu", 8, Link(300e9, 300e9)),
    )
    assert joined.notes[0] == "left out, because every device uses another NIC: mlx5_8"


def test_devices_that_only_pcie_joins() -> None:
    host = read_nvidia_topo(topo_text(every_pair(2, "SYS")), "topo.txt")
    joined = join("p", host, (), (), Given(pcie_bandwidth=31.5e9))
    assert joined.system.levels == (Level("gpu", 2, Link(31.5e9, 31.5e9)),)
    assert joined.notes[0] == "topo.txt names no links between devices: they are joined by PCIe"


def test_nics_that_no_file_names() -> None:
    host = read_nvidia_topo(topo_text(every_pair(8, "NV18")))
    given = Given(link_bandwidth=25e9, nic_bandwidth=50e9, num_nics=4)
    link = join("n", host, (), ("a", "b"), given).system.levels[0].link
    assert link == Link(50e9, 50e9, num=4, behind=(0, 0, 1, 1, 2, 2, 3, 3))


def test_more_nics_than_devices_that_no_file_names() -> None:
    host = read_nvidia_topo(topo_text(every_pair(8, "NV18")))
    given = Given(link_bandwidth=25e9, nic_bandwidth=12.5e9, num_nics=32)
    assert join("n", host, (), ("a", "b"), given).system.levels[0].link == Link(50e9, 50e9, num=8)
    with pytest.raises(
        TopologyError, match=r"--nics 12 cannot be shared out evenly among the 8 devices .* such as 16"
    ):
        join("n", host, (), ("a", "b"), replace(given, num_nics=12))


NIC = "the NIC's bandwidth is not in {}: give --nic-bandwidth, such as 200Gbit/s"
ISLANDS = read_nccl_xml(mesh_xml([(0, 1, 1), (2, 3, 1)], kind='sm="1"').replace("GT/s", ""), "i.xml")
UPWARD = (
    "the bandwidth from a leaf switch up is not in the files: give --uplink-bandwidth, such as 800GB/s, all uplinks of one "
    "switch together"
)


@pytest.mark.parametrize(
    ("host", "switches", "message"),
    [
        (
            read_nccl_xml(PCI_XML, "pci.xml"), "",
            "how the devices of a host are joined is not in pci.xml: give --device-bandwidth, such as 300GB/s; "
            + NIC.format("pci.xml"),
        ),
        (
            read_nvidia_topo(TOPO_TEXT, "topo.txt"), "",
            "the bandwidth of a link between devices is not in topo.txt: give --link-bandwidth, such as 25GB/s (NVLink of "
            "V100 to H100); " + NIC.format("topo.txt"),
        ),
        (
            read_nvidia_topo(topo_text(every_pair(2, "SYS")), "topo.txt"), "",
            "the bandwidth of PCIe is not in topo.txt: give --pcie-bandwidth, such as 31.5GB/s; no NIC is in topo.txt: give "
            "--nic-bandwidth, such as 200Gbit/s, and --nics where there are several",
        ),
        (
            ISLANDS, "",
            "the bandwidth of a link between devices is not in i.xml: give --link-bandwidth, such as 25GB/s (NVLink of V100 "
            "to H100); the bandwidth of PCIe is not in i.xml: give --pcie-bandwidth, such as 31.5GB/s",
        ),
        (SWITCHED, THREE_LEAVES, UPWARD),
        (
            replace(SWITCHED, nics=tuple(Nic(f"n{n}", n * 1e9) for n in range(1, 6))), "",
            "the NICs in host.xml have different bandwidths: give --nic-bandwidth, one for all, such as 200Gbit/s",
        ),
        (
            SWITCHED, THREE_LEAVES + "SwitchName=leaf4 Nodes=z\nSwitchName=spine2 Switches=leaf4\nSwitchName=core Switches=spine,spine2",
            f"{UPWARD}, once for each level of switches, the one next to the hosts first; "
            f"{UPWARD.replace('leaf', 'spine')}, once for each level of switches, the one next to the hosts first",
        ),
    ],
)  # fmt: skip
def test_what_is_missing_is_asked_for_by_name(host: HostFacts, switches: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        join("q", host, read_topology_conf(switches) if switches else (), () if switches else ("a", "b"))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("switches", "hosts", "message"),
    [
        (
            "SwitchName=a Nodes=x", ["z"],
            "the host 'z' is on no switch of the fabric; name it there, or leave it out of --hosts",
        ),
        (
            "SwitchName=a Nodes=x\nSwitchName=b Nodes=y", [],
            "the switches 'a' and 'b' hang on none that joins them; expected one above all, as in SwitchName=spine "
            "Switches=leaf[1-2]",
        ),
        (
            "SwitchName=a Nodes=x Switches=b\nSwitchName=b Nodes=y", [],
            "hosts hang on 'a', but other hosts further down; expected all hosts equally far from the top",
        ),
    ],
)  # fmt: skip
def test_a_fabric_that_cannot_be_is_named(switches: str, hosts: list[str], message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        join("q", SWITCHED, read_topology_conf(switches), hosts, UPLINK)
    assert str(caught.value) == message


def test_groups_of_different_form_are_named() -> None:
    host = read_nccl_xml(mesh_xml([(0, 1, 1), (1, 2, 1)]), "h.xml")
    with pytest.raises(
        TopologyError, match=r"groups of different form, \[0, 1, 2\] and \[3\], .* --device-bandwidth"
    ):
        join("q", host)
    assert join("q", host, (), (), Given(device_bandwidth=1e9)).system.num_ranks == 4


def test_a_bad_name_and_too_many_devices_are_named() -> None:
    with pytest.raises(TopologyError, match="expected a name such as my-cluster for the system, found"):
        join("a\nb", SWITCHED)
    hosts = tuple(f"h{n}" for n in range(300_000))
    with pytest.raises(TopologyError, match="multiply to more than 1048576 devices; give fewer --hosts"):
        join("big", SWITCHED, (), hosts)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public files are not here")
def test_the_public_files() -> None:
    switches = read_topology_conf(THREE_LEAVES)
    found = {}
    for path in sorted(SHARED.glob("*.xml")):
        given = Given(uplink_bandwidths=(8e11,))
        if path.stem == "azure_ndv4":
            given = replace(given, nic_bandwidth=25e9, device_bandwidth=3e11)
        system = join(
            path.stem, read_nccl_xml(path.read_text("utf-8"), path.name), switches, (), given
        ).system
        assert (system.num_hosts, system.num_ranks) == (64, 512)
        assert read_system(write_system(system)) == system
        found[path.stem] = system.levels[1:]
    nics = Link(25e9, 25e9, num=8, behind=(1, 0, 3, 2, 5, 4, 7, 6))
    assert found["dgx_a100"] == (Level("host", 22, nics), Level("gpu", 8, Link(300e9, 300e9)))
    assert found["azure_ndv4"][0].link == replace(nics, behind=(2, 3, 0, 1, 6, 7, 4, 5))
    full = tuple(Edge(a, b, 64e9) for a, b in combinations(range(8), 2))
    assert found["rccl_8p_940"] == (
        Level("host", 22, Link(50e9, 50e9, num=8)),
        Level("gpu", 8, None, Fabric("mesh", edges=full)),
    )
    host, island, gpu = found["rccl_4p3l_n4"]
    assert host.link == Link(25e9, 25e9)
    assert (island.count, gpu.count, len(gpu.fabric.edges)) == (2, 4, 6)
