"""The topology functions of a script: who has a link to whom, as ``links[dst][src]`` bandwidths."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence

Links = list[list[int]]
Switch = tuple[list[int], list[int], int, str]
"""(sources, destinations, bandwidth, name)."""


class Topology:
    """Links between nodes, and switches that several of them share."""

    def __init__(self, name: str, links: Links, switches: Sequence[Switch] = ()) -> None:
        for _, _, bandwidth, switch in switches:
            if bandwidth <= 0:
                raise ValueError(f"switch {switch} needs a bandwidth above 0, but has {bandwidth}")
        self.name = name
        self.links = links
        self.switches = list(switches)

    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.links)

    def nodes(self) -> range:
        """Every node."""
        return range(self.num_nodes())

    def link(self, src: int, dst: int) -> int:
        """The bandwidth from ``src`` to ``dst``; 0 where there is no link."""
        return self.links[dst][src]

    def sources(self, dst: int) -> Iterator[int]:
        """Who can send to ``dst``."""
        return (src for src in self.nodes() if self.link(src, dst) > 0)

    def destinations(self, src: int) -> Iterator[int]:
        """To whom ``src`` can send."""
        return (dst for dst in self.nodes() if self.link(src, dst) > 0)

    def bandwidth_constraints(self) -> Iterator[Switch]:
        """Every link and switch as (sources, destinations, bandwidth, name)."""
        for dst in self.nodes():
            for src in self.sources(dst):
                yield [src], [dst], self.link(src, dst), f"{src}→{dst}"
        yield from self.switches


def _links(num_nodes: int, bandwidth: Callable[[int, int], int]) -> Links:
    """``bandwidth(src, dst)`` of every pair; a node has no link to itself."""
    nodes = range(num_nodes)
    return [[0 if src == dst else bandwidth(src, dst) for src in nodes] for dst in nodes]


def fully_connected(num_nodes: int) -> Topology:
    """Everybody has a link to everybody."""
    return Topology(f"FullyConnected(n={num_nodes})", _links(num_nodes, lambda src, dst: 1))


def hub_and_spoke(num_nodes: int) -> Topology:
    """Everybody reaches everybody through one hub."""
    switches: list[Switch] = []
    for node in range(num_nodes):
        others = [other for other in range(num_nodes) if other != node]
        switches += [([node], others, 1, f"node_{node}_out"), (others, [node], 1, f"node_{node}_in")]
    return Topology(f"HubAndSpoke(n={num_nodes})", _links(num_nodes, lambda src, dst: 1), switches)


def ring(num_nodes: int) -> Topology:
    """Links to the next and to the previous node, around."""
    near = {1 % num_nodes, -1 % num_nodes}
    return Topology(
        f"Ring(n={num_nodes})", _links(num_nodes, lambda src, dst: int((dst - src) % num_nodes in near))
    )


def line(num_nodes: int) -> Topology:
    """Links to the next and to the previous node, without the one that closes the ring."""
    return Topology(f"Line(n={num_nodes})", _links(num_nodes, lambda src, dst: int(abs(dst - src) == 1)))


def star(num_nodes: int, non_blocking: bool = True) -> Topology:
    """Links between node 0 and every other."""
    points = list(range(1, num_nodes))
    shared: list[Switch] = [([0], points, 1, "to_points"), (points, [0], 1, "from_points")]
    links = _links(num_nodes, lambda src, dst: int(0 in (src, dst)))
    return Topology(f"Star(n={num_nodes})", links, [] if non_blocking else shared)


def _from_pairs(num_nodes: int, pairs: dict[int, str]) -> Links:
    """Symmetric links; ``pairs[bandwidth]`` lists them as "01 23"."""
    bandwidth = {frozenset(map(int, pair)): width for width, text in pairs.items() for pair in text.split()}
    return _links(num_nodes, lambda src, dst: bandwidth.get(frozenset((src, dst)), 0))


def dgx1() -> Topology:
    """Eight GPUs in two meshes of four, with double links along 0-1-3-2-6-7-5-4-0."""
    return Topology("DGX1", _from_pairs(8, {1: "02 03 12 15 37 46 47 56", 2: "01 13 23 26 67 57 45 04"}))


def dgx_a100() -> Topology:
    """Eight GPUs behind switches, twelve links each."""
    return Topology("DGX_A100", _links(8, lambda src, dst: 12))


def amd4() -> Topology:
    """Four GPUs in a ring."""
    return Topology("AMD4", _from_pairs(4, {1: "01 02 13 23"}))


def amd8() -> Topology:
    """Eight GPUs in two groups, faster inside a group."""
    fast = {0, 2, 3, 5}
    return Topology("AMD8", _links(8, lambda src, dst: 6 if (src in fast) == (dst in fast) else 5))


def nvlink_only(nvidia_smi_topo: str | None = None) -> Topology:
    """The NVLinks of this machine, or of another one's ``nvidia-smi topo -m``."""
    if nvidia_smi_topo is None:
        command = ["nvidia-smi", "topo", "-m"]
        nvidia_smi_topo = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in nvidia_smi_topo.splitlines()]
    gpus = [row for row in rows if row and re.fullmatch(r"GPU\d+", row[0]) and "X" in row]
    return Topology("NVLinkOnly", [[_nvlinks(cell) for cell in row[1 : len(gpus) + 1]] for row in gpus])


def _nvlinks(cell: str) -> int:
    match = re.fullmatch(r"NV(\d+)", cell)
    return int(match[1]) if match else 0


def reverse_topology(topology: Topology) -> Topology:
    """Every link and switch in the other direction."""
    switches = [(dsts, srcs, width, f"{name}_reversed") for srcs, dsts, width, name in topology.switches]
    links = _links(topology.num_nodes(), lambda src, dst: topology.link(dst, src))
    return Topology(f"Reverse{topology.name}", links, switches)


def binarize_topology(topology: Topology) -> Topology:
    """The same links, all of bandwidth 1, and no switches."""
    links = _links(topology.num_nodes(), lambda src, dst: int(topology.link(src, dst) > 0))
    return Topology(f"Binarized{topology.name}", links)


def _copies(local: Topology, num_copies: int, remote_bw: int) -> tuple[Links, list[Switch]]:
    size = local.num_nodes()

    def bandwidth(src: int, dst: int) -> int:
        return local.link(src % size, dst % size) if src // size == dst // size else remote_bw

    switches = [
        (
            [src + at * size for src in srcs],
            [dst + at * size for dst in dsts],
            width,
            f"copy_{at}_{name}_local",
        )
        for srcs, dsts, width, name in local.switches
        for at in range(num_copies)
    ]
    return _links(size * num_copies, bandwidth), switches


def distributed_fully_connected(local_topology: Topology, num_copies: int, remote_bw: int) -> Topology:
    """Copies of a machine, with a link of ``remote_bw`` between any two nodes of different copies."""
    links, switches = _copies(local_topology, num_copies, remote_bw)
    name = f"DistributedFullyConnected(local={local_topology.name},copies={num_copies},bw={remote_bw})"
    return Topology(name, links, switches)


def distributed_hub_and_spoke(local_topology: Topology, num_copies: int, remote_bw: int) -> Topology:
    """Copies of a machine, each behind one uplink of ``remote_bw``."""
    links, switches = _copies(local_topology, num_copies, remote_bw)
    size = local_topology.num_nodes()
    for copy in range(num_copies):
        inside = [node for node in range(len(links)) if node // size == copy]
        outside = [node for node in range(len(links)) if node // size != copy]
        switches.append((inside, outside, remote_bw, f"copy_{copy}_out_remote"))
        switches.append((outside, inside, remote_bw, f"copy_{copy}_in_remote"))
    name = f"DistributedHubAndSpoke(local={local_topology.name},copies={num_copies},bw={remote_bw})"
    return Topology(name, links, switches)
