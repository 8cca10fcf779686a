"""Bandwidth: the algorithm bandwidth and the bus bandwidth of a measured time, as nccl-tests define them.

The algorithm bandwidth is the size of the larger of a rank's input and output, divided by the time. The bus bandwidth is
the algorithm bandwidth times a factor of the collective. It is what the busiest link of a machine without a bottleneck
carries, so it can be compared with the hardware at any number of ranks.
"""

from __future__ import annotations

from hemiola.collectives import CollectiveKind


def algorithm_bandwidth(num_bytes: int, seconds: float) -> float:
    """Bytes per second; ``num_bytes`` is the size of the larger of a rank's input and output."""
    return num_bytes / seconds if num_bytes else 0.0


def bus_bandwidth(kind: CollectiveKind, num_ranks: int, num_bytes: int, seconds: float) -> float | None:
    """Bytes per second; None where the collective has no factor."""
    factor = kind.facts.bus_factor
    return None if factor is None else factor(num_ranks) * algorithm_bandwidth(num_bytes, seconds)
