"""AppliedPlacement: which device has which coordinate, and where the devices are: all that an export needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hemiola.placement.axes import Axes
from hemiola.placement.host_cpus import HostCpus
from hemiola.placement.matrix import Numbers, ParallelismMatrix
from hemiola.topology.system import System


@dataclass(frozen=True)
class AppliedPlacement:
    """A placement on the devices of a system."""

    system: System
    axes: Axes
    grid: Numbers
    """The device at each coordinate, a dimension for each axis."""
    matrix: ParallelismMatrix | None
    """None for a permutation that no matrix describes."""
    host_cpus: HostCpus | None = None
    """NUMA nodes of a host; None where they are not known."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the axes."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(axis.size for axis in self.axes)

    @property
    def permutation(self) -> list[int]:
        """The device at each coordinate, the last axis counting fastest."""
        return [int(device) for device in self.grid.reshape(-1)]

    def host_and_slot(self, device: int) -> tuple[str, int]:
        """The name of a device's host, and its number among the devices there."""
        hosts = self.system.host_of_rank
        first = int(np.searchsorted(hosts, hosts[device]))
        return self.system.host_name(hosts[device]), device - first
