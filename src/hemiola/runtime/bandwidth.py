"""Bandwidth: the algorithm bandwidth and the bus bandwidth of a measured time, as nccl-tests define them.

The algorithm bandwidth is the size of the larger of a rank's input and output, divided by the time. The bus bandwidth is
the algorithm bandwidth times a factor of the collective. It is what the busiest link of a machine without a bottleneck
carries, so it can be compared with the hardware at any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

BUS_FACTORS: Mapping[str, Callable[[int], float]] = {
    "allreduce": lambda r: 2 * (r - 1) / r,
    **dict.fromkeys(("allgather", "reducescatter", "alltoall", "gather", "scatter"), lambda r: (r - 1) / r),
    **dict.fromkeys(("broadcast", "reduce", "alltonext", "sendrecv"), lambda _: 1.0),
}
"""The factor of the bus bandwidth by collective, from the number of ranks; a custom collective has none."""


def algorithm_bandwidth(num_bytes: int, seconds: float) -> float:
    """Bytes per second; ``num_bytes`` is the size of the larger of a rank's input and output."""
    return num_bytes / seconds if num_bytes else 0.0


def bus_bandwidth(kind: str, num_ranks: int, num_bytes: int, seconds: float) -> float | None:
    """Bytes per second; None where the collective has no factor."""
    if kind not in BUS_FACTORS:
        return None
    return BUS_FACTORS[kind](num_ranks) * algorithm_bandwidth(num_bytes, seconds)
