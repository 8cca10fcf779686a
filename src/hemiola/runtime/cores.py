"""Core: where a rank is pinned, among the ranks of its host that may run on the same cores."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Core:
    """One core of the host."""

    number: int
    most_ranks: int
    """How many ranks share it, or another one of the cores that they may use."""
    shared_evenly: bool
    """Whether every core has equally many ranks, and more than one: pinned, none of them waits for a crowded one."""


def allowed_cores() -> str:
    """The cores on which this thread may run, as a mask in hexadecimal digits."""
    return f"{sum(1 << core for core in os.sched_getaffinity(0)):x}"


def choose_core(rank: int, allowed: Mapping[int, str]) -> Core:
    """The core for a rank, by what each rank of its host may use: in blocks of neighbours, spread over all cores."""
    mask = int(allowed[rank], 16)
    cores = [number for number in range(mask.bit_length()) if mask >> number & 1]
    alike = [peer for peer in sorted(allowed) if allowed[peer] == allowed[rank]]
    number = cores[alike.index(rank) * len(cores) // len(alike)]
    evenly = len(alike) > len(cores) > 1 and len(alike) % len(cores) == 0
    return Core(number, most_ranks=math.ceil(len(alike) / len(cores)), shared_evenly=evenly)
