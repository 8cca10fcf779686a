"""Distances: how far every estimate is from the replay of the best plan, as it was measured.

An estimate divided by the replayed time of the plan that tune finds lies between two numbers, from a size on. They were measured on
presets of two hosts, with groups of one and of two axes, and tests/cost/test_estimates_near_replay.py holds others to them.
Estimates rank; they are mostly too long, because a replay has more ways to carry a collective out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EstimateDistance:
    """Between which factors of the replay an estimate lies, from a size on."""

    from_bytes: int
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.least:g} to {self.most:g} times the replay from {self.from_bytes >> 20} MiB on"


DISTANCES: Mapping[str, tuple[EstimateDistance, ...]] = {
    "placements": (EstimateDistance(1 << 20, 0.9, 2.0), EstimateDistance(1 << 26, 0.95, 1.15)),
    "explicit_groups": (EstimateDistance(1 << 20, 0.9, 3.2), EstimateDistance(1 << 26, 0.95, 3.2)),
    "programs": (EstimateDistance(1 << 20, 0.9, 10.0), EstimateDistance(1 << 26, 0.95, 2.5)),
}
"""By estimate: of a request under placements, of a request over explicit groups, and of a synthesized program."""


def distance_of(estimate: str, num_bytes: int) -> EstimateDistance | None:
    """What is known of an estimate at a size; None below the sizes that were measured."""
    known = [one for one in DISTANCES[estimate] if num_bytes >= one.from_bytes]
    return known[-1] if known else None
