"""HostCpus: the NUMA nodes of a host and their cores, as far as they are known, and which of them a device is next to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hemiola.errors import PlacementError

MOST = 1 << 16


@dataclass(frozen=True, slots=True)
class HostCpus:
    """Devices are spread over NUMA nodes evenly, in their order, which is how hosts with several accelerators are built."""

    num_nodes: int
    cores: int | None = None
    """Of one node; None where they are not known, and sockets are named as a whole."""

    def node_of(self, device: int, num_devices: int) -> int:
        """The NUMA node of a device of a host, counted from 0."""
        return device * self.num_nodes // num_devices

    def slot(self, device: int, num_devices: int) -> str:
        """All cores of the device's node, as a rankfile of Open MPI names them: ``1:*`` or ``64-127``."""
        node = self.node_of(device, num_devices)
        if self.cores is None:
            return f"{node}:*"
        first = node * self.cores
        return str(first) if self.cores == 1 else f"{first}-{first + self.cores - 1}"


def parse_host_cpus(text: str) -> HostCpus:
    """``2x64``: two NUMA nodes of 64 cores each; ``2``: two sockets, whose cores are not said."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})(?:x([1-9][0-9]{0,4}))?", text.strip(), re.ASCII)
    if found is None or max(int(number) for number in found.groups() if number) > MOST:
        raise PlacementError(
            f"host-cpus: expected NUMA nodes and the cores of each, such as 2x64, or only the sockets, such as 2; found {text[:40]!r}"
        )
    return HostCpus(int(found[1]), None if found[2] is None else int(found[2]))


def assumed_host_cpus(num_devices: int) -> HostCpus:
    """Where nobody said: two sockets for hosts with four devices or more, as DGX, HGX and their like have them."""
    return HostCpus(2 if num_devices >= 4 else 1)
