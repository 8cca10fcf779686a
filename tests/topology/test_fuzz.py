"""Damaged files: whatever is read gives a system or one sentence, in little time and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from hemiola.errors import HemiolaError
from hemiola.topology.host_facts import HostFacts
from hemiola.topology.inside_host import Given
from hemiola.topology.join import join
from hemiola.topology.parse.nccl_xml import read_nccl_xml
from hemiola.topology.parse.nvidia_topo import read_nvidia_topo
from hemiola.topology.parse.slurm import expand_hosts, read_topology_conf
from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.presets import FOLDER, preset_names
from hemiola.topology.system import System
from hemiola.topology.tree import system_tree
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
from topology.mutate import mutated, peak_bytes
from topology.test_systems_page import EXAMPLES

SHARED = Path(__file__).parents[3] / "shared" / "data" / "nccl-topo"
ALL_GIVEN = Given(
    nic_bandwidth=25e9,
    link_bandwidth=25e9,
    pcie_bandwidth=31.5e9,
    uplink_bandwidths=(8e11, 8e11, 8e11),
    nic_latency=1e-6,
)
HOST = read_nccl_xml(nvswitch_xml())
MOST_BYTES = 256 << 20
"""By which the process may grow."""


def join_host(host: HostFacts) -> System:
    given = ALL_GIVEN if host.knows_links else Given(nic_bandwidth=25e9, device_bandwidth=3e11)
    return join("fuzzed", host, (), ("a", "b"), given).system


READERS: dict[str, tuple[list[str], Callable[[str], System]]] = {
    "yaml": (
        [*EXAMPLES, *((FOLDER / f"{name}.yaml").read_text("utf-8") for name in preset_names())],
        read_system,
    ),
    "nccl_xml": (
        [
            nvswitch_xml(), PCI_XML, mesh_xml([(0, 1, 2), (1, 2, 1), (2, 3, 2), (0, 3, 1)]), mesh_xml([(0, 1, 4), (2, 3, 4)]),
            *(path.read_text("utf-8") for path in sorted(SHARED.glob("*.xml"))),
        ],
        lambda text: join_host(read_nccl_xml(text)),
    ),
    "nvidia_topo": (
        [TOPO_TEXT, topo_text(every_pair(4, "NV4")), topo_text(every_pair(2, "SYS"), [["PIX"], ["PXB"]])],
        lambda text: join_host(read_nvidia_topo(text)),
    ),
    "topology_conf": (
        [THREE_LEAVES, "SwitchName=s0 Nodes=a[0-3]\nSwitchName=s1 Nodes=b[0-3]\nSwitchName=s2 Switches=s[0-1]\nSwitchName=t Switches=s2"],
        lambda text: join("fuzzed", HOST, read_topology_conf(text), (), ALL_GIVEN).system,
    ),
    "node_list": (
        ["gpu[001-064]", "login,gpu[08-10,12],r[0-1]n[00-03]", "a,b,c"],
        lambda text: join("fuzzed", HOST, (), expand_hosts(text), ALL_GIVEN).system,
    ),
}  # fmt: skip


def outcome(read: Callable[[str], System], text: str) -> System | str:
    """The system, or what is said instead."""
    try:
        return read(text)
    except HemiolaError as error:
        return str(error)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("times", [500, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_text_gives_a_system_or_a_sentence(reader: str, times: int) -> None:
    texts, read = READERS[reader]
    for text in texts:
        assert read(text).num_ranks
    before = peak_bytes()
    num_read = 0
    for seed in range(times):
        random = Random(f"{reader} {seed}")
        text = mutated(random.choice(texts), random)
        found = outcome(read, text)
        if isinstance(found, str):
            assert found.isprintable(), seed
            assert len(found) < 2000, seed
            continue
        system = found
        num_read += 1
        if seed % 10 == 0 and system.num_ranks < 5_000:
            assert read_system(write_system(system)) == system, seed
            assert system_tree(system)
    assert peak_bytes() - before < MOST_BYTES
    # Damage that is never or always noticed would test nothing.
    assert times / 100 < num_read < times * 0.99


BOMBS = {
    "yaml aliases": (read_system, "a: &a [1, 1]\n" + "\n".join(f"{c}: &{c} [*{p}, *{p}]" for p, c in zip("abcdefg", "bcdefgh", strict=True))),
    "yaml depth": (read_system, "levels: " + "[" * 5000),
    "yaml base sixty": (read_system, "name: " + "9:" * 400_000 + "9"),
    "yaml devices": (read_system, "levels: [" + ", ".join(f"{{name: l{n}, count: 1048576, link: {{bandwidth: 1}}}}" for n in range(16)) + "]"),
    "yaml full mesh": (read_system, "levels: [{name: a, count: 1048576, fabric: {kind: mesh, edges: {form: full, bandwidth: 1}}}]"),
    "yaml keys": (read_system, "\n".join(f"k{n}: 1" for n in range(10_000))),
    "xml entities": (read_nccl_xml, '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><system>&b;</system>'),
    "xml depth": (read_nccl_xml, "<system>" + "<pci>" * 100_000),
    "xml width": (read_nccl_xml, "<system>" + "<pci/>" * 100_000 + "</system>"),
    "xml devices": (read_nccl_xml, "<system>" + "<gpu/>" * 40_000 + "</system>"),
    "xml size": (read_nccl_xml, " " * (5 << 20)),
    "topo columns": (read_nvidia_topo, " ".join(f"GPU{n}" for n in range(5_000))),
    "hosts in a range": (expand_hosts, "a[0-999999999]"),
    "hosts in a product": (expand_hosts, "[0-9]" * 16),
    "hosts in a row": (expand_hosts, ",".join(f"a{n}[0-9999]" for n in range(100))),
    "brackets": (expand_hosts, "[" * 1_000_000),
    "switches times hosts": (read_topology_conf, "SwitchName=s[0-99999] Nodes=a[0-99999]"),
    "switches in a circle": (read_topology_conf, "SwitchName=a Switches=b\nSwitchName=b Switches=a"),
    "switches on themselves": (read_topology_conf, "SwitchName=a Switches=a"),
    "switches in a chain": (read_topology_conf, "\n".join(f"SwitchName=s{n} Switches=s{n + 1}" for n in range(5_000)) + "\nSwitchName=s5000 Nodes=a"),
}  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_text_made_to_hurt_is_refused(bomb: str) -> None:
    read, text = BOMBS[bomb]
    before = peak_bytes()
    with pytest.raises(HemiolaError) as caught:
        read(text)
    assert str(caught.value).isprintable()
    assert peak_bytes() - before < MOST_BYTES
