"""place: the best placements of a job on a system, beside what frameworks would do by default.

Placements are ranked by estimates. The first of them and the best default are then replayed, where the system is small enough:
every request with its best plan, all groups at once; that comparison decides whether the default is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hemiola.cost.estimates.explicit_groups import MOST_DEVICES, GroupCosts
from hemiola.cost.time_source import TimeSource
from hemiola.errors import PlacementError
from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.axes import Axes, check_sizes
from hemiola.placement.defaults import DefaultOrder, default_orders
from hemiola.placement.enumerate import level_counts
from hemiola.placement.matrix import Numbers, ParallelismMatrix
from hemiola.placement.priced import (
    MOST_REPLAYED,
    PricedRequest,
    exposed_seconds,
    price_requests,
    replayed_seconds,
)
from hemiola.placement.regular_part import regular_part
from hemiola.placement.score import PlacementRanking, grid_seconds, rank_placements, score_placements
from hemiola.placement.search import SearchedPermutation, search_permutation
from hemiola.placement.traffic import Traffic
from hemiola.topology.system import System

TIE = 1e-9
"""Times whose ratio is nearer to one than this are equal."""


@dataclass(frozen=True, slots=True)
class DefaultScore:
    """What a framework does by default, and what that costs."""

    default: DefaultOrder
    matrix: ParallelismMatrix | None
    """None where no matrix describes it."""
    seconds: float | None
    """None where no matrix describes it and there are too many devices to look at every link."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.default.name,
            "matrix": None if self.matrix is None else [list(row) for row in self.matrix.rows],
            "axes": None if self.matrix is None else [axis.name for axis in self.matrix.axes],
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class ReplayedComparison:
    """The first placement and the best default, every request with its best plan, replayed."""

    requests: tuple[PricedRequest, ...]
    """Of the first placement."""
    seconds: float
    """Exposed, of the first placement."""
    default_seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "source": TimeSource.REPLAYED,
            "seconds": self.seconds,
            "default_seconds": self.default_seconds,
            "requests": [
                {
                    "name": one.request.name,
                    "seconds": one.seconds,
                    "plan": None if one.plan is None else one.plan.name,
                }
                for one in self.requests
            ],
        }


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """Placements of a job, ranked, and the defaults."""

    system: System
    axes: Axes
    traffic: Traffic
    ranking: PlacementRanking | None
    """None where missing units leave no levels that a matrix fits."""
    defaults: tuple[DefaultScore, ...]
    seconds_of_rows: tuple[float, ...]
    """Of the placements in the ranking; on an uneven system with every link looked at."""
    searched: SearchedPermutation | None
    """The permutation that a search found, on a system whose units are not all alike."""
    replayed: ReplayedComparison | None = None
    """None where nothing was replayed."""

    @property
    def best_default(self) -> DefaultScore | None:
        """The fastest default, by its estimate."""
        known = [default for default in self.defaults if default.seconds is not None]
        return min(known, key=lambda default: default.seconds or 0.0, default=None)

    @property
    def default_seconds(self) -> float | None:
        """Of the fastest default, estimated."""
        known = [default.seconds for default in self.defaults if default.seconds is not None]
        return min(known, default=None)

    @property
    def seconds(self) -> float:
        """Of the best placement, estimated."""
        if self.searched is not None:
            return self.searched.seconds
        return self.seconds_of_rows[0]

    @property
    def default_is_best(self) -> bool:
        """Whether nothing is faster than a default: by replay where there was one."""
        if self.replayed is not None and self.replayed.default_seconds is not None:
            return self.replayed.default_seconds <= self.replayed.seconds * (1 + TIE)
        default = self.default_seconds
        return default is not None and default <= self.seconds * (1 + TIE)

    def device_grid(self) -> Numbers:
        """The device at each coordinate under the best placement; the default's where nothing is faster."""
        best = self.best_default
        return best.default.device_grid(self.axes) if best and self.default_is_best else self.first_grid()

    def first_grid(self) -> Numbers:
        """The device at each coordinate under the first placement, whatever the defaults."""
        if self.searched is not None:
            return self.searched.grid
        assert self.ranking is not None
        return self.ranking.scores[0].matrix.device_grid()

    def applied(self) -> AppliedPlacement:
        """The best placement on the devices; a search that found nothing faster leaves the matrix."""
        return self.applied_grid(self.device_grid())

    def applied_grid(self, grid: Numbers) -> AppliedPlacement:
        """A device at each coordinate as a placement, with its matrix where one of the ranked ones says the same."""
        matrices = [score.matrix for score in self.ranking.scores] if self.ranking is not None else []
        same = (matrix for matrix in matrices if (matrix.device_grid() == grid).all())
        return AppliedPlacement(self.system, self.axes, grid, next(same, None))

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        scores = self.ranking.scores if self.ranking is not None else ()
        return {
            "system": self.system.name,
            "levels": [level.name for level in self.system.levels],
            "axes": {axis.name: axis.size for axis in self.axes},
            "num_placements": self.ranking.num_placements if self.ranking is not None else 0,
            "worst_seconds": None
            if self.ranking is None or self.searched is not None
            else self.ranking.worst_seconds,
            "source": TimeSource.ESTIMATED,
            "traffic": self.traffic.to_json(),
            "default_is_best": self.default_is_best,
            "defaults": [default.to_json() for default in self.defaults],
            "placements": [
                {
                    "matrix": [list(row) for row in score.matrix.rows],
                    "text": score.matrix.text,
                    "seconds": seconds,
                    "bound_seconds": score.bound_seconds,
                    "default_seconds": self.default_seconds,
                    "requests": [part.to_json() for part in score.times],
                }
                for score, seconds in zip(scores, self.seconds_of_rows, strict=True)
            ],
            "permutation": None
            if self.searched is None
            else {**self.searched.to_json(), "default_seconds": self.default_seconds},
            "replayed": None if self.replayed is None else self.replayed.to_json(),
        }


def place(
    system: System, axes: Axes, traffic: Traffic, *, top: int = 10, replay: bool = True
) -> PlacementResult:
    """Rank the placements of a job's axes on a system by the exposed time of its traffic.

    With ``replay``, the first and the best default are replayed where the system has up to MOST_REPLAYED devices.
    """
    traffic.check(axes)
    found = (_place_evenly if system.is_uniform else _place_unevenly)(system, axes, traffic, top)
    if not replay or system.num_ranks > MOST_REPLAYED:
        return found
    return replace(found, replayed=_compare(found))


def _compare(found: PlacementResult) -> ReplayedComparison:
    system, axes, traffic = found.system, found.axes, found.traffic
    first = price_requests(system, found.first_grid(), axes, traffic)
    seconds, default, default_seconds = exposed_seconds(first, traffic), found.best_default, None
    if default is not None:
        grid = default.default.device_grid(axes)
        same = bool((grid == found.first_grid()).all())
        default_seconds = seconds if same else replayed_seconds(system, grid, axes, traffic)
    return ReplayedComparison(tuple(first), seconds, default_seconds)


def _place_evenly(system: System, axes: Axes, traffic: Traffic, top: int) -> PlacementResult:
    ranking = rank_placements(system, axes, traffic, top)
    defaults = tuple(_default_score(one, system, axes, traffic) for one in default_orders(axes))
    seconds = tuple(score.seconds for score in ranking.scores)
    return PlacementResult(system, axes, traffic, ranking, defaults, seconds, None)


def _default_score(default: DefaultOrder, system: System, axes: Axes, traffic: Traffic) -> DefaultScore:
    matrix = default.matrix(axes, level_counts(system))
    if matrix is not None:
        (score,) = score_placements([matrix], system, traffic)
        return DefaultScore(default, matrix, score.seconds)
    if system.num_ranks > MOST_DEVICES:
        return DefaultScore(default, None, None)
    return DefaultScore(
        default, None, grid_seconds(GroupCosts(system).seconds, default.device_grid(axes), axes, traffic)
    )


def _place_unevenly(system: System, axes: Axes, traffic: Traffic, top: int) -> PlacementResult:
    """The best matrix as if all units were alike, where one fits, and the defaults; then a search from the best of them."""
    check_sizes(axes, system.num_ranks, system.name)
    if system.num_ranks > MOST_DEVICES:
        raise PlacementError(
            f"system {system.name!r} is uneven and has {system.num_ranks} devices; permutations are searched up to"
            f" {MOST_DEVICES}: leave out its exceptions, or place a part of it"
        )
    costs = GroupCosts(system)
    regular = regular_part(system)
    ranking = None if regular is None else rank_placements(regular, axes, traffic, top)
    starts = [] if ranking is None else [score.matrix.device_grid() for score in ranking.scores]
    seconds = [grid_seconds(costs.seconds, grid, axes, traffic) for grid in starts]
    if ranking is not None:
        order = sorted(range(len(starts)), key=lambda row: seconds[row])
        ranking = replace(ranking, scores=tuple(ranking.scores[row] for row in order))
    orders = default_orders(axes)
    defaults = tuple(
        DefaultScore(one, None, grid_seconds(costs.seconds, one.device_grid(axes), axes, traffic))
        for one in orders
    )
    starts += [one.device_grid(axes) for one in orders]
    found = search_permutation(costs, starts, axes, traffic)
    return PlacementResult(system, axes, traffic, ranking, defaults, tuple(sorted(seconds)), found)
