"""Cores: which core of its host a rank is pinned to, and how many ranks share that core."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Core:
    """One core of the host."""

    number: int
    num_ranks: int
    """The largest number of ranks on one core, among the ranks that may use the same cores."""
    shared_evenly: bool
    """Whether every core has the same number of ranks, and more than one. Only then does pinning leave no core behind
    the others."""


def allowed_cores() -> str:
    """The cores on which this thread may run, as a bit mask in hexadecimal digits."""
    return f"{sum(1 << core for core in os.sched_getaffinity(0)):x}"


def choose_cores(allowed: Mapping[int, str]) -> dict[int, Core]:
    """The core of every rank of a host, from the mask of cores that each rank may use.

    Ranks with the same mask are spread over its cores in blocks: neighbouring ranks share a core.
    """
    alike: dict[str, list[int]] = {}
    for rank in sorted(allowed):
        alike.setdefault(allowed[rank], []).append(rank)
    return {rank: core for mask, ranks in alike.items() for rank, core in _spread(ranks, int(mask, 16))}


def _spread(ranks: list[int], mask: int) -> Iterator[tuple[int, Core]]:
    cores = [number for number in range(mask.bit_length()) if mask >> number & 1]
    evenly = len(ranks) > len(cores) > 1 and len(ranks) % len(cores) == 0
    for place, rank in enumerate(ranks):
        number = cores[place * len(cores) // len(ranks)]
        yield rank, Core(number, num_ranks=math.ceil(len(ranks) / len(cores)), shared_evenly=evenly)
