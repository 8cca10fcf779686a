"""score: a job's whole traffic under each placement, ranked by the time that stays exposed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from hemiola.collectives import CollectiveKind
from hemiola.cost.estimates.link_costs import Amounts, LinkCosts, Numbers
from hemiola.cost.estimates.placements import Costs, request_costs
from hemiola.errors import PlacementError
from hemiola.placement.axes import Axes, check_sizes
from hemiola.placement.enumerate import enumerate_placements, level_counts, num_matrices
from hemiola.placement.groups import groups_of_grid
from hemiola.placement.matrix import ParallelismMatrix
from hemiola.placement.traffic import Traffic, TrafficRequest
from hemiola.topology.system import System

BATCH = 4096
"""Placements scored at once."""
MOST_PLACEMENTS = 1 << 20
"""Scored in all; they take about a minute."""


@dataclass(frozen=True, slots=True)
class RequestTime:
    """What one request adds to a step, estimated."""

    request: TrafficRequest
    seconds: float
    """Of all its times in a step."""
    exposed_seconds: float
    bound_seconds: float
    """Exposed, if every algorithm were as fast as its bound under this placement."""
    algorithm: str

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.request.name,
            "seconds": self.seconds,
            "exposed_seconds": self.exposed_seconds,
            "bound_seconds": self.bound_seconds,
            "algorithm": self.algorithm,
        }


@dataclass(frozen=True, slots=True)
class PlacementScore:
    """A placement and what it costs in a step."""

    matrix: ParallelismMatrix
    times: tuple[RequestTime, ...]

    @property
    def seconds(self) -> float:
        """Exposed time of all requests."""
        return sum(part.exposed_seconds for part in self.times)

    @property
    def bound_seconds(self) -> float:
        """No algorithms are faster under this placement."""
        return sum(part.bound_seconds for part in self.times)


@dataclass(frozen=True, slots=True)
class PlacementRanking:
    """The best placements, fastest first; of equals, the one that is enumerated first."""

    scores: tuple[PlacementScore, ...]
    num_placements: int
    worst_seconds: float


def rank_placements(system: System, axes: Axes, traffic: Traffic, top: int = 10) -> PlacementRanking:
    """PlacementScore every placement of the axes on a system's levels as if all units were there and alike."""
    traffic.check(axes)
    _check_number(system, axes)
    links = LinkCosts.of(system)
    best: list[tuple[float, int, ParallelismMatrix]] = []
    num_placements, worst = 0, 0.0
    for batch in _batches(enumerate_placements(system, axes)):
        seconds = _Table.of(batch, traffic, links).exposed.sum(axis=0)
        numbers = np.argsort(seconds, kind="stable")[:top].tolist()
        best += [(float(seconds[number]), num_placements + number, batch[number]) for number in numbers]
        best = sorted(best, key=lambda row: row[:2])[:top]
        num_placements, worst = num_placements + len(batch), max(worst, float(seconds.max()))
    return PlacementRanking(
        tuple(score_placements([matrix for _, _, matrix in best], system, traffic)), num_placements, worst
    )


def score_placements(
    placements: Sequence[ParallelismMatrix], system: System, traffic: Traffic
) -> list[PlacementScore]:
    """What each of some placements costs, request by request."""
    if not placements:
        return []
    table = _Table.of(placements, traffic, LinkCosts.of(system))
    return [table.score(number) for number in range(len(placements))]


def exposed(seconds: Amounts, traffic: Traffic) -> Amounts:
    """What stays exposed of the seconds of each request (rows), for each placement (columns).

    Requests that overlap with the same computation follow each other, and what is longer than it is exposed; each
    request has the same part of it.
    """
    found = seconds.copy()
    for name, available in traffic.computation.items():
        rows = [row for row, request in enumerate(traffic.requests) if request.overlaps == name]
        total = seconds[rows].sum(axis=0)
        left = np.divide(np.maximum(total - available, 0.0), total, out=np.zeros_like(total), where=total > 0)
        found[rows] *= left
    return found


def grid_seconds(
    seconds_of: Callable[[CollectiveKind, int, Numbers], float], grid: Numbers, axes: Axes, traffic: Traffic
) -> float:
    """The exposed time of a step where ``grid`` has the device at each coordinate, by any way to time a request over groups."""
    each = [
        seconds_of(request.collective, request.num_bytes, groups_of_grid(grid, request.axis_numbers(axes)))
        * request.per_step
        for request in traffic.requests
    ]
    return float(exposed(np.array(each).reshape(-1, 1), traffic).sum())


@dataclass(frozen=True)
class _Table:
    """Requests by placements."""

    placements: Sequence[ParallelismMatrix]
    traffic: Traffic
    costs: tuple[Costs, ...]
    seconds: Amounts
    exposed: Amounts
    bound: Amounts

    @staticmethod
    def of(placements: Sequence[ParallelismMatrix], traffic: Traffic, links: LinkCosts) -> _Table:
        matrices: Numbers = np.array([matrix.rows for matrix in placements], np.int64)
        axes = placements[0].axes
        costs = tuple(
            request_costs(request.collective, request.num_bytes, request.axis_numbers(axes), matrices, links)
            for request in traffic.requests
        )
        times = np.array([request.per_step for request in traffic.requests])[:, np.newaxis]
        empty = np.zeros((0, len(placements)))
        seconds = np.stack([cost.seconds for cost in costs]) * times if costs else empty
        bound = np.stack([cost.bound_seconds for cost in costs]) * times if costs else empty
        return _Table(placements, traffic, costs, seconds, exposed(seconds, traffic), exposed(bound, traffic))

    def score(self, number: int) -> PlacementScore:
        parts = tuple(
            RequestTime(
                request,
                float(self.seconds[row, number]),
                float(self.exposed[row, number]),
                float(self.bound[row, number]),
                cost.names[int(cost.algorithm[number])],
            )
            for row, (request, cost) in enumerate(zip(self.traffic.requests, self.costs, strict=True))
        )
        return PlacementScore(self.placements[number], parts)


def _check_number(system: System, axes: Axes) -> None:
    counts = level_counts(system)
    check_sizes(axes, math.prod(counts), system.name)
    number = num_matrices([axis.size for axis in axes], counts)
    if number > MOST_PLACEMENTS:
        raise PlacementError(
            f"axes: there are {number} ways to place {len(axes)} axes on system {system.name!r}, more than the"
            f" {MOST_PLACEMENTS} that are scored; make one of axes that have the same traffic"
        )


def _batches(placements: Iterator[ParallelismMatrix]) -> Iterator[list[ParallelismMatrix]]:
    while batch := list(islice(placements, BATCH)):
        yield batch
