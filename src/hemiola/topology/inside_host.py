"""The levels inside a host, from what a file tells about it and what a user adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hemiola.errors import TopologyError
from hemiola.topology.host_facts import HostFacts
from hemiola.topology.system import Edge, Fabric, Level, Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a user says beside the files; None is nothing."""

    nic_bandwidth: float | None = None
    """Bytes per second of one interface each way."""
    num_nics: int | None = None
    """Where the file does not name the interfaces."""
    device_bandwidth: float | None = None
    """Of one device to the switch that joins those of a host; then the links in the file do not count."""
    link_bandwidth: float | None = None
    """Of one NVLink or xGMI link."""
    pcie_bandwidth: float | None = None
    """Of one device's PCIe link."""
    uplink_bandwidths: tuple[float, ...] = ()
    """Of a switch to those above it, all uplinks together, the switches next to the hosts first."""
    nic_latency: float | None = None
    device_latency: float | None = None
    uplink_latency: float | None = None
    rails: bool = False
    """Whether the k-th interfaces of all hosts are on a switch of their own."""


@dataclass(slots=True)
class Questions:
    """What is missing: every question that a user must answer, and what is worth knowing."""

    asked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def need(self, value: float | None, given: float | None, question: str) -> float:
        """What a user says, else what a file says; without either it is asked for, and 1 stands in until then."""
        found = value if given is None else given
        if found is None:
            self.asked.append(question)
        return 1.0 if found is None else found


@dataclass(frozen=True, slots=True)
class Inside:
    """A host's own levels, and the order in which its devices are numbered in them."""

    levels: tuple[Level, ...]
    order: tuple[int, ...]


def levels_inside(host: HostFacts, given: Given, questions: Questions) -> Inside:
    """How the devices of a host are joined: by a switch, by a mesh, in islands of meshes, or by PCIe."""
    order = tuple(range(len(host.devices)))
    if given.device_bandwidth is None and host.direct_links:
        return _meshes(host, given, questions)
    return Inside((Level("gpu", len(order), _device_link(host, given, questions)),), order)


def _device_link(host: HostFacts, given: Given, questions: Questions) -> Link:
    """Of a device to the switch that joins all."""
    latency = given.device_latency or 0.0
    if given.device_bandwidth is not None or not host.knows_links:
        bandwidth = questions.need(
            None,
            given.device_bandwidth,
            f"how the devices of a host are joined is not in {host.source}: give --device-bandwidth, such as 300GB/s",
        )
    elif host.switch_links:
        bandwidth = host.switch_links * _link_bandwidth(host, given, questions)
    else:
        questions.notes.append(f"{host.source} names no links between devices: they are joined by PCIe")
        bandwidth = _pcie_bandwidth(host, given, questions)
    return Link(bandwidth, bandwidth, latency)


def _link_bandwidth(host: HostFacts, given: Given, questions: Questions) -> float:
    question = (
        f"the bandwidth of a link between devices is not in {host.source}: give --link-bandwidth, such as 25GB/s "
        "(NVLink of V100 to H100)"
    )
    return questions.need(host.link_bandwidth, given.link_bandwidth, question)


def _pcie_bandwidth(host: HostFacts, given: Given, questions: Questions) -> float:
    question = f"the bandwidth of PCIe is not in {host.source}: give --pcie-bandwidth, such as 31.5GB/s"
    return questions.need(host.pcie_bandwidth, given.pcie_bandwidth, question)


def _meshes(host: HostFacts, given: Given, questions: Questions) -> Inside:
    """One mesh of all devices, or equal islands of them that PCIe joins."""
    islands = _islands(len(host.devices), host.direct_links)
    forms = {_form(island, host.direct_links) for island in islands}
    if len(forms) > 1 or len({len(island) for island in islands}) > 1:
        raise TopologyError(
            f"{host.source}: its devices are joined in groups of different form, {' and '.join(map(str, islands[:4]))}, "
            "which no level can say; give --device-bandwidth to take them as joined by one switch"
        )
    bandwidth, latency = _link_bandwidth(host, given, questions), given.device_latency or 0.0
    edges = tuple(Edge(first, second, count * bandwidth, latency) for first, second, count in forms.pop())
    mesh = Level("gpu", len(islands[0]), None, Fabric("mesh", edges=edges))
    order = tuple(device for island in islands for device in island)
    if len(islands) == 1:
        return Inside((mesh,), order)
    pcie = _pcie_bandwidth(host, given, questions)
    questions.notes.append(
        f"{len(islands)} islands of {len(islands[0])} devices, joined by PCIe; ranks are on devices {_listed(order)}"
    )
    return Inside((Level("island", len(islands), Link(pcie, pcie, latency, len(islands[0]))), mesh), order)


def _islands(num_devices: int, links: Mapping[tuple[int, int], int]) -> list[list[int]]:
    """Devices that reach each other over links, in order."""
    island_of = list(range(num_devices))

    def find(device: int) -> int:
        while island_of[device] != device:
            island_of[device] = island_of[island_of[device]]
            device = island_of[device]
        return device

    for first, second in links:
        ends = sorted((find(first), find(second)))
        island_of[ends[1]] = ends[0]
    islands: dict[int, list[int]] = {}
    for device in range(num_devices):
        islands.setdefault(find(device), []).append(device)
    return list(islands.values())


def _form(island: list[int], links: Mapping[tuple[int, int], int]) -> tuple[tuple[int, int, int], ...]:
    """The links inside an island, its devices numbered from 0."""
    number = {device: index for index, device in enumerate(island)}
    return tuple(sorted((number[a], number[b], count) for (a, b), count in links.items() if a in number))


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:16])) + (" ..." if len(numbers) > 16 else "")
