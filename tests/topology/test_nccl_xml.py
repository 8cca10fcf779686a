"""Hosts from NCCL's topology XML."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from hemiola.errors import TopologyError
from hemiola.topology.host_facts import Nic
from hemiola.topology.parse.nccl_xml import read_nccl_xml
from topology.host_texts import PCI_XML, bus, mesh_xml, nvswitch_xml

SHARED = Path(__file__).parents[3] / "shared" / "data" / "nccl-topo"
PCIE_4 = 31.51e9
"""16 GT/s and 16 lanes, 128 of 130 bits, in four digits."""


def test_devices_behind_switches() -> None:
    host = read_nccl_xml(nvswitch_xml(4))
    assert host.devices == tuple(f"{n} ({bus(n)})" for n in range(4))
    assert host.nics == (*(Nic(f"mlx5_{n}", 25e9) for n in range(4)), Nic("storage", 12.5e9))
    assert (host.switch_links, host.direct_links, host.link_bandwidth) == (12, {}, 25e9)
    assert host.pcie_bandwidth == PCIE_4
    for device, distances in enumerate(host.distances):
        assert min(distances) == distances[device]
        assert sorted(distances)[1] > distances[device]


def test_devices_with_direct_links() -> None:
    links = {(0, 1): 2, (1, 2): 1, (0, 3): 1}
    host = read_nccl_xml(mesh_xml([(*pair, count) for pair, count in links.items()]))
    assert (host.direct_links, host.switch_links, host.link_bandwidth) == (links, 0, 25e9)
    assert host.pcie_bandwidth == 15.75e9
    assert read_nccl_xml(mesh_xml([(0, 1, 1)], tag="xgmi", kind='gcn="gfx942"')).link_bandwidth == 64e9
    assert read_nccl_xml(mesh_xml([(0, 1, 1)], kind='sm="999"')).link_bandwidth is None


@pytest.mark.parametrize(
    ("gcn", "bandwidth"),
    [
        ("906", 46e9),
        ("908", 46e9),
        ("910", 50e9),
        ("gfx90a", 50e9),
        ("940", 64e9),
        ("942", 64e9),
        ("950", 76.8e9),
    ],
)
def test_links_of_amd_devices(gcn: str, bandwidth: float) -> None:
    assert read_nccl_xml(mesh_xml([(0, 1, 1)], tag="xgmi", kind=f'gcn="{gcn}"')).link_bandwidth == bandwidth


def test_a_link_that_only_one_end_names_is_there() -> None:
    text = mesh_xml([(0, 1, 2)]).replace(f'<nvlink target="{bus(0)}" count="2" tclass="0x038000"/>', "")
    assert read_nccl_xml(text).direct_links == {(0, 1): 2}


def test_a_bare_tree_of_pci() -> None:
    host = read_nccl_xml(PCI_XML)
    assert not host.knows_links
    assert host.devices == ("0 (0001:00:00.0)", "1 (0003:00:00.0)")
    assert host.nics == (Nic("0103:00:00.0", None), Nic("0101:00:00.0", None))
    assert host.pcie_bandwidth == 15.75e9
    assert host.distances[0][1] < host.distances[0][0]
    assert host.distances[1][0] < host.distances[1][1]


@pytest.mark.parametrize(("old", "new"), [('rank="', 'r="'), ('rank="1"', 'rank="0"')])
def test_without_ranks_the_numbers_of_devices_count(old: str, new: str) -> None:
    text = nvswitch_xml(2).replace('dev="0" sm', 'dev="7" sm').replace(old, new)
    assert read_nccl_xml(text).devices == (f"0 ({bus(1)})", f"1 ({bus(0)})")


@pytest.mark.parametrize("speed", ["0", "-0", ""])
def test_a_nic_may_not_know_its_speed(speed: str) -> None:
    assert read_nccl_xml(nvswitch_xml(1, speed=speed)).nics[0].bandwidth is None


def test_pcie_of_old_generations_carries_less_data() -> None:
    text = nvswitch_xml(1).replace("16.0 GT/s PCIe", "5 GT/s")
    assert read_nccl_xml(text).pcie_bandwidth == 5e9 * 16 / 8 * 0.8
    assert read_nccl_xml(text.replace("5 GT/s", "fast")).pcie_bandwidth is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<a/>", "t.xml:1: expected the tag <system>, found <a>"),
        ("<system>", "t.xml:1: this is no well-formed XML: no element found"),
        ("", "t.xml:1: this is no well-formed XML: no element found"),
        (
            "<system/>",
            "t.xml: there is no device in it: expected <gpu> tags, or <pci> tags with class 0x0302 or 0x1200",
        ),
        ("<!DOCTYPE system><system/>", "t.xml:1: a document type was found, which no topology needs"),
        (
            nvswitch_xml(1, speed="fast"),
            't.xml:7: speed="fast" was found, a number of Mbit/s such as 200000 was expected',
        ),
        (
            nvswitch_xml(1, count="0"),
            't.xml:5: count="0" was found, a number of links such as 2 was expected',
        ),
        (
            nvswitch_xml(2).replace('<nvlink target="0000:c4:00.0" count="6" tclass="0x068000"/>', "", 1),
            "t.xml: some of its devices are joined by a switch and others not, or with other numbers of links; describe "
            "such a host in YAML, see docs/systems.md",
        ),
        ("<system>" + "<gpu/>" * 257 + "</system>", "t.xml: a host has at most 256 devices and 256 NICs"),
        ("<system>\n" * 65, "t.xml:65: a topology has at most 50000 tags, 64 inside each other"),
    ],
)
def test_what_is_no_topology_is_named(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_nccl_xml(text, "t.xml")
    assert str(caught.value) == message


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public files are not here")
@pytest.mark.parametrize(
    ("name", "nics", "switched", "pairs", "link", "pcie"),
    [
        ("dgx_a100.xml", 12, 12, 0, 25e9, PCIE_4),
        ("azure_ndv4.xml", 8, 0, 0, None, PCIE_4),
        ("rccl_4p3l_n4.xml", 1, 0, 12, 46e9, PCIE_4),
        ("rccl_8p_940.xml", 8, 0, 28, 64e9, 63.02e9),
    ],
)
def test_a_public_file(
    name: str, nics: int, switched: int, pairs: int, link: float | None, pcie: float
) -> None:
    host = read_nccl_xml((SHARED / name).read_text("utf-8"), name)
    assert len(host.devices) == 8
    assert (len(host.nics), host.switch_links, len(host.direct_links)) == (nics, switched, pairs)
    assert (host.link_bandwidth, host.pcie_bandwidth) == (link, pcie)
    if pairs == 28:
        assert set(host.direct_links) == set(combinations(range(8), 2))
