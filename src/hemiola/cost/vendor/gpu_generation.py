"""generation_of: which generation of GPU a system has, by what its devices move; NCCL's tables are per generation."""

from __future__ import annotations

from enum import Enum

from hemiola.topology.system import System


class Generation(Enum):
    """Of NVIDIA's GPUs; the value is the most that a device of it sends to its host's other devices, in bytes per second."""

    VOLTA = 160e9
    AMPERE = 310e9
    HOPPER = 460e9
    BLACKWELL = float("inf")


def generation_of(system: System) -> Generation:
    """The first generation whose links are as fast as those of the system's devices."""
    sent = device_bandwidth(system)
    return next(one for one in Generation if sent <= one.value)


def device_bandwidth(system: System) -> float:
    """Bytes per second that a device sends to the others of its host, over all its links."""
    inside = system.levels[-1]
    if inside.link is not None:
        return inside.link.bandwidth_out * inside.link.num
    return sum(edge.bandwidth for edge in inside.fabric.edges if 0 in (edge.first, edge.second))
