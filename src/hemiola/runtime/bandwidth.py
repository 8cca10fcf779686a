"""Bandwidth: what a time means in bytes per second, in the two ways that people compare.

Algorithm bandwidth is the data of one rank, its input or its output, whichever is larger, over the time. Bus
bandwidth is what the busiest link of a machine without a bottleneck carries then: the algorithm bandwidth
times a factor of the collective, so that it can be held against the hardware at any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

BUS_FACTORS: Mapping[str, Callable[[int], float]] = {
    "allreduce": lambda r: 2 * (r - 1) / r,
    **dict.fromkeys(("allgather", "reducescatter", "alltoall", "gather", "scatter"), lambda r: (r - 1) / r),
    **dict.fromkeys(("broadcast", "reduce", "alltonext", "sendrecv"), lambda _: 1.0),
}
"""By kind, from the number of ranks; a custom collective has none."""


def algorithm_bandwidth(num_bytes: int, seconds: float) -> float:
    """``num_bytes`` is the larger of a rank's input and output."""
    return num_bytes / seconds if num_bytes else 0.0


def bus_bandwidth(kind: str, num_ranks: int, num_bytes: int, seconds: float) -> float | None:
    """None where the collective has no factor."""
    if kind not in BUS_FACTORS:
        return None
    return BUS_FACTORS[kind](num_ranks) * algorithm_bandwidth(num_bytes, seconds)
