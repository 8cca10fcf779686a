"""nvls_seconds: how long NVLink SHARP takes for an all-reduce; plans have no step for a switch that reduces, so this is a formula.

Every device owns a part of the data. The switch reads a device's part from all devices, adds it up and gives it to the owner, who writes it
back through the switch to all of them. So each link carries the data once and a part of it once more, in each direction:
``S (1 + 1/n)`` bytes. Channels work on chunks in turn. A round of all channels and owners moves ``channels x n x chunk`` bytes, and
reading one round overlaps with writing the one before. The size of a chunk depends on the size of the call (NCCL's enqueue.cc).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hemiola.cost.vendor.gpu_generation import device_bandwidth
from hemiola.topology.system import ProtocolCosts, System

CHANNELS = 16
CHUNKS = (16 << 10, 32 << 10, 64 << 10, 128 << 10)
"""Of a channel and an owner."""
ROUNDS = (2, 8, 64)
"""A chunk is taken where the call has at least so many rounds of the chunk after which it comes."""
NVLS = "NVLS"
"""The name of its constants among the protocols of a system."""


@dataclass(frozen=True, slots=True)
class NvlsTime:
    """What a call does."""

    seconds: float
    num_rounds: int
    link_bytes: float
    """Of each device's links, in each direction."""


def nvls_seconds(system: System, num_ranks: int, num_bytes: float) -> NvlsTime:
    """An all-reduce on one host; ``efficiency``, ``launch_seconds`` and ``step_seconds`` of a round are those of "NVLS"."""
    costs = system.protocols.get(NVLS, ProtocolCosts())
    bandwidth = device_bandwidth(system) * costs.efficiency
    round_bytes = CHANNELS * num_ranks * _chunk(num_ranks, num_bytes)
    num_rounds = max(1, math.ceil(num_bytes / round_bytes))
    link_bytes = num_bytes * (1 + 1 / num_ranks)
    fill = min(num_bytes, round_bytes) / bandwidth
    seconds = costs.launch_seconds + num_rounds * costs.step_seconds + link_bytes / bandwidth + fill
    return NvlsTime(seconds, num_rounds, link_bytes)


def _chunk(num_ranks: int, num_bytes: float) -> int:
    chunk = CHUNKS[-1]
    for smaller, rounds in zip(CHUNKS[-2::-1], ROUNDS[::-1], strict=True):
        if num_bytes < rounds * CHANNELS * num_ranks * chunk:
            chunk = smaller
    return chunk
