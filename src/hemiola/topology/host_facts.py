"""HostFacts: what a file says about one host; what is missing is asked from the user later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Nic:
    """A network interface."""

    name: str
    bandwidth: float | None
    """Bytes per second each way; None where the file does not give it."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Devices, interfaces and the links between them, as far as they are known."""

    source: str
    """The name of the file."""
    devices: tuple[str, ...]
    """In the order of their ranks."""
    nics: tuple[Nic, ...]
    distances: tuple[tuple[int, ...], ...]
    """The distance of every device to every interface; only comparisons of them mean anything."""
    knows_links: bool = True
    """Whether this kind of file lists direct links and links to switches; a bare PCI tree does not."""
    direct_links: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """How many links join two devices, the smaller number first."""
    switch_links: int = 0
    """How many links every device has to the switch that connects all devices."""
    link_bandwidth: float | None = None
    """Bytes per second of one such link, each way."""
    pcie_bandwidth: float | None = None
    """Bytes per second of a device's PCIe link, each way."""


MAX_DEVICES_OF_A_HOST = 256
MAX_NICS_OF_A_HOST = 256
