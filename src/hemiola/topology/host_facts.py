"""HostFacts: what a file tells about one host, before anybody is asked for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Nic:
    """A network interface."""

    name: str
    bandwidth: float | None
    """Bytes per second each way; None where the file does not say it."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Devices, interfaces and the links between them, as far as they are known."""

    source: str
    """The name of the file."""
    devices: tuple[str, ...]
    """In the order of their ranks."""
    nics: tuple[Nic, ...]
    distances: tuple[tuple[int, ...], ...]
    """From every device to every interface; only their order counts."""
    knows_links: bool = True
    """Whether the file would name direct links and links to switches; a bare PCI tree does not."""
    direct_links: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """How many links join two devices, the smaller number first."""
    switch_links: int = 0
    """How many links every device has to the switch that joins all."""
    link_bandwidth: float | None = None
    """Bytes per second of one such link, each way."""
    pcie_bandwidth: float | None = None
    """The same of a device's PCIe link."""


MAX_DEVICES_OF_A_HOST = 256
MAX_NICS_OF_A_HOST = 256
