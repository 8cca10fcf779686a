"""``levels_inside``: the levels inside a host, from what a file says about it and what the user adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hemiola.errors import TopologyError
from hemiola.topology.host_facts import HostFacts
from hemiola.topology.system import Edge, Fabric, Level, Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Values that the user gives in addition to the files; None where the user gives none."""

    nic_bandwidth: float | None = None
    """Bytes per second of one interface each way."""
    num_nics: int | None = None
    """The number of interfaces of a host, for files that do not name them."""
    device_bandwidth: float | None = None
    """Bytes per second of one device to the switch of its host; it overrides the links in the file."""
    link_bandwidth: float | None = None
    """Bytes per second of one NVLink or xGMI link."""
    pcie_bandwidth: float | None = None
    """Bytes per second of one device's PCIe link."""
    uplink_bandwidths: tuple[float, ...] = ()
    """Bytes per second of all uplinks of a switch together, for each level of switches, the one next to the hosts first."""
    nic_latency: float | None = None
    device_latency: float | None = None
    uplink_latency: float | None = None
    rails: bool = False
    """Whether the k-th interfaces of all hosts are connected by a switch of their own."""


@dataclass(slots=True)
class ImportReport:
    """What an import found out: the values that the user must still give, and notes."""

    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def need(self, value: float | None, given: float | None, question: str) -> float:
        """The value of the user, or else of the file. Without either the question is recorded and 1 is returned, so that one
        import reports all that is missing."""
        found = value if given is None else given
        if found is None:
            self.missing.append(question)
        return 1.0 if found is None else found


@dataclass(frozen=True, slots=True)
class HostLevels:
    """The levels inside a host, and the order in which its devices are numbered in them."""

    levels: tuple[Level, ...]
    order: tuple[int, ...]


def levels_inside(host: HostFacts, given: Given, report: ImportReport) -> HostLevels:
    """The levels of a host whose devices are connected by a switch, by a mesh, in islands of meshes, or by PCIe."""
    order = tuple(range(len(host.devices)))
    if given.device_bandwidth is None and host.direct_links:
        return _meshes(host, given, report)
    return HostLevels((Level("gpu", len(order), _device_link(host, given, report)),), order)


def _device_link(host: HostFacts, given: Given, report: ImportReport) -> Link:
    """The link of a device to the switch of its host."""
    latency = given.device_latency or 0.0
    if given.device_bandwidth is not None or not host.knows_links:
        bandwidth = report.need(
            None,
            given.device_bandwidth,
            f"how the devices of a host are joined is not in {host.source}: give --device-bandwidth, such as 300GB/s",
        )
    elif host.switch_links:
        bandwidth = host.switch_links * _link_bandwidth(host, given, report)
    else:
        report.notes.append(f"{host.source} names no links between devices: they are joined by PCIe")
        bandwidth = _pcie_bandwidth(host, given, report)
    return Link(bandwidth, bandwidth, latency)


def _link_bandwidth(host: HostFacts, given: Given, report: ImportReport) -> float:
    question = (
        f"the bandwidth of a link between devices is not in {host.source}: give --link-bandwidth, such as 25GB/s "
        "(NVLink of V100 to H100)"
    )
    return report.need(host.link_bandwidth, given.link_bandwidth, question)


def _pcie_bandwidth(host: HostFacts, given: Given, report: ImportReport) -> float:
    question = f"the bandwidth of PCIe is not in {host.source}: give --pcie-bandwidth, such as 31.5GB/s"
    return report.need(host.pcie_bandwidth, given.pcie_bandwidth, question)


def _meshes(host: HostFacts, given: Given, report: ImportReport) -> HostLevels:
    """The levels of a host that is one mesh, or equal islands of meshes that PCIe connects."""
    islands = _islands(len(host.devices), host.direct_links)
    forms = {_form(island, host.direct_links) for island in islands}
    if len(forms) > 1 or len({len(island) for island in islands}) > 1:
        raise TopologyError(
            f"{host.source}: its devices are joined in groups of different form, {' and '.join(map(str, islands[:4]))}, "
            "which no level can say; give --device-bandwidth to take them as joined by one switch"
        )
    bandwidth, latency = _link_bandwidth(host, given, report), given.device_latency or 0.0
    edges = tuple(Edge(first, second, count * bandwidth, latency) for first, second, count in forms.pop())
    mesh = Level("gpu", len(islands[0]), None, Fabric("mesh", edges=edges))
    order = tuple(device for island in islands for device in island)
    if len(islands) == 1:
        return HostLevels((mesh,), order)
    pcie = _pcie_bandwidth(host, given, report)
    report.notes.append(
        f"{len(islands)} islands of {len(islands[0])} devices, joined by PCIe; ranks are on devices {_listed(order)}"
    )
    return HostLevels(
        (Level("island", len(islands), Link(pcie, pcie, latency, len(islands[0]))), mesh), order
    )


def _islands(num_devices: int, links: Mapping[tuple[int, int], int]) -> list[list[int]]:
    """The connected components of the devices over their links, each in the order of its devices."""
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
