"""LinkCosts: what a uniform system's links cost a message, level by level, without a number for each device.

In a pattern every device sends the same number of bytes, and a part of the devices' messages leaves the units of each level.
By symmetry the units of a level are alike, so one link for each level says how long a pattern takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.topology.system import Level, ProtocolCosts, System

Amounts = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LinkCosts:
    """Arrays with an entry for each level, outermost first."""

    system: System
    counts: Amounts
    """Units in a unit of the level outside."""
    inside: Amounts
    """Devices in a unit."""
    bandwidth: Amounts
    """Bytes per second of one link of a unit, the slower way; infinite in a mesh."""
    num_links: Amounts
    behind: Amounts
    """Devices behind the link that has most of them."""
    fabric_bandwidth: Amounts
    is_mesh: npt.NDArray[np.bool_]
    message_seconds: Amounts
    """What a message costs beside its bytes when both ends meet at this level; in a mesh, without its edges."""
    step_seconds: float
    """What a message costs its sender beside its bytes."""
    own_seconds: float
    """What a message takes beside its bytes and its links."""
    add_bandwidth: float
    """Of a device when all devices add."""
    copy_bandwidth: float
    efficiency: float

    @staticmethod
    def of(system: System) -> LinkCosts:
        """The costs of a system's levels; units that are missing or have links of their own are not looked at."""
        protocol = system.protocols.get("Simple") or next(iter(system.protocols.values()), ProtocolCosts())
        levels = system.levels
        counts = np.array([level.count for level in levels], np.float64)
        inside = np.array([math.prod(one.count for one in levels[j + 1 :]) for j in range(len(levels))])
        links = [_link_of(level, j == len(levels) - 1) for j, level in enumerate(levels)]
        latency = np.array([0.0 if level.link is None else level.link.latency for level in levels])
        per_host = math.prod(level.count for level in levels[system.host_depth :])
        compute = system.compute
        core = min(compute.core_bandwidth, compute.host_core_bandwidth / per_host)
        return LinkCosts(
            system=system,
            counts=counts,
            inside=inside.astype(np.float64),
            bandwidth=np.array([bandwidth for bandwidth, _ in links]) * protocol.efficiency,
            num_links=np.array([num for _, num in links], np.float64),
            behind=np.array([_most_behind(system, j) for j in range(len(levels))], np.float64),
            fabric_bandwidth=np.array([level.fabric.bandwidth for level in levels]) * protocol.efficiency,
            is_mesh=np.array([level.fabric.kind == "mesh" for level in levels]),
            message_seconds=protocol.message_seconds + 2 * latency[::-1].cumsum()[::-1],
            step_seconds=protocol.step_seconds,
            own_seconds=protocol.message_seconds,
            add_bandwidth=min(compute.add_bandwidth, compute.host_add_bandwidth / per_host, core),
            copy_bandwidth=min(compute.copy_bandwidth, compute.host_copy_bandwidth / per_host, core),
            efficiency=protocol.efficiency,
        )

    def of_messages(self, on_busiest: Amounts, leaving: Amounts) -> Amounts:
        """Seconds for each byte that all devices send, by link and by fabric.

        A part ``leaving`` of the messages leaves each level's units, and the busiest link there carries so many of them.
        """
        return self._costs(np.where(leaving > 0, on_busiest, 0.0), leaving)

    def of_shares(self, leaving: Amounts) -> Amounts:
        """The same where every device sends a part of its bytes out of each level's units."""
        return self._costs(leaving * self.behind, leaving)

    def _costs(self, on_busiest: Amounts, leaving: Amounts) -> Amounts:
        through_links = on_busiest / self.bandwidth
        coming = np.concatenate([np.zeros_like(leaving[..., :1]), leaving[..., :-1]], axis=-1)
        # Who leaves a unit whose inside is a mesh does not cross the mesh; a switch is crossed on both sides.
        crossing = np.where(self.is_mesh, leaving - coming, leaving + coming)
        through_fabrics = crossing * self.counts * self.inside / self.fabric_bandwidth
        return np.concatenate([through_links, through_fabrics], axis=-1)

    def of_phases(self) -> Amounts:
        """A row for each level at which all devices send to others of equal place: seconds a byte of links and fabrics."""
        depth = len(self.counts)
        return self.of_messages(self.behind, np.tril(np.ones((depth, depth))).T)

    @property
    def unit_bandwidth(self) -> Amounts:
        """Of all links of a unit together; of a mesh, of all edges of the unit that has most."""
        edges = [_most_edges(level) for level in self.system.levels]
        return np.where(self.is_mesh, np.array(edges) * self.efficiency, self.bandwidth * self.num_links)


def _link_of(level: Level, is_device: bool) -> tuple[float, int]:
    if level.link is None:
        return math.inf, 1
    slower = min(level.link.bandwidth_out, level.link.bandwidth_in)
    # A device spreads over all its links, so they are one.
    return (slower * level.link.num, 1) if is_device else (slower, level.link.num)


def _most_edges(level: Level) -> float:
    widths = np.zeros(level.count)
    for edge in level.fabric.edges:
        widths[[edge.first, edge.second]] += edge.bandwidth
    return float(widths.max())


def _most_behind(system: System, depth: int) -> int:
    """Devices behind the busiest link of a unit."""
    link, inside = system.levels[depth].link, system.levels[depth + 1 :]
    if link is None or not inside:
        return 1
    if link.behind:
        return int(np.bincount(link.behind).max())
    each = math.prod(level.count for level in inside[1:])
    return -(-inside[0].count // link.num) * each
