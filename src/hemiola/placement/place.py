"""place: the best placements of a job on a system, beside what frameworks would do by default."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hemiola.errors import PlacementError
from hemiola.placement.axes import Axes, check_sizes
from hemiola.placement.defaults import DefaultOrder, default_orders
from hemiola.placement.enumerate import level_counts
from hemiola.placement.matrix import Numbers, ParallelismMatrix
from hemiola.placement.permutation import MOST_DEVICES, PermutationCosts
from hemiola.placement.regular_part import regular_part
from hemiola.placement.score import Ranking, rank_placements, score_placements
from hemiola.placement.search import Found, search_permutation
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


@dataclass(frozen=True, slots=True)
class Answer:
    """Placements of a job, ranked, and the defaults."""

    system: System
    axes: Axes
    traffic: Traffic
    ranking: Ranking | None
    """None where missing units leave no levels that a matrix fits."""
    defaults: tuple[DefaultScore, ...]
    seconds_of_rows: tuple[float, ...]
    """Of the placements in the ranking; on an uneven system with every link looked at."""
    found: Found | None
    """The permutation that a search found, on a system whose units are not all alike."""

    @property
    def default_seconds(self) -> float | None:
        """Of the fastest default."""
        known = [default.seconds for default in self.defaults if default.seconds is not None]
        return min(known, default=None)

    @property
    def seconds(self) -> float:
        """Of the best placement."""
        if self.found is not None:
            return self.found.seconds
        return self.seconds_of_rows[0]

    @property
    def default_is_best(self) -> bool:
        """Whether nothing is faster than a default."""
        default = self.default_seconds
        return default is not None and default <= self.seconds * (1 + TIE)

    def device_grid(self) -> Numbers:
        """The device at each coordinate under the best placement; the default's where nothing is faster."""
        if self.default_is_best:
            known = [default for default in self.defaults if default.seconds is not None]
            best = min(known, key=lambda default: default.seconds or 0.0)
            return best.default.device_grid(self.axes)
        if self.found is not None:
            return self.found.grid
        assert self.ranking is not None
        return self.ranking.scores[0].matrix.device_grid()


def place(system: System, axes: Axes, traffic: Traffic, top: int = 10) -> Answer:
    """Rank the placements of a job's axes on a system by the exposed time of its traffic."""
    traffic.check(axes)
    if system.is_uniform:
        ranking = rank_placements(system, axes, traffic, top)
        defaults = tuple(_default_score(one, system, axes, traffic) for one in default_orders(axes))
        seconds = tuple(score.seconds for score in ranking.scores)
        return Answer(system, axes, traffic, ranking, defaults, seconds, None)
    return _place_unevenly(system, axes, traffic, top)


def _default_score(default: DefaultOrder, system: System, axes: Axes, traffic: Traffic) -> DefaultScore:
    matrix = default.matrix(axes, level_counts(system))
    if matrix is not None:
        (score,) = score_placements([matrix], system, traffic)
        return DefaultScore(default, matrix, score.seconds)
    if system.num_ranks > MOST_DEVICES:
        return DefaultScore(default, None, None)
    return DefaultScore(
        default, None, PermutationCosts(system).seconds(default.device_grid(axes), axes, traffic)
    )


def _place_unevenly(system: System, axes: Axes, traffic: Traffic, top: int) -> Answer:
    """The best matrix as if all units were alike, where one fits, and the defaults; then a search from the best of them."""
    check_sizes(axes, system.num_ranks, system.name)
    if system.num_ranks > MOST_DEVICES:
        raise PlacementError(
            f"system {system.name!r} is uneven and has {system.num_ranks} devices; permutations are searched up to"
            f" {MOST_DEVICES}: leave out its exceptions, or place a part of it"
        )
    costs = PermutationCosts(system)
    regular = regular_part(system)
    ranking = None if regular is None else rank_placements(regular, axes, traffic, top)
    starts = [] if ranking is None else [score.matrix.device_grid() for score in ranking.scores]
    seconds = [costs.seconds(grid, axes, traffic) for grid in starts]
    if ranking is not None:
        order = sorted(range(len(starts)), key=lambda row: seconds[row])
        ranking = replace(ranking, scores=tuple(ranking.scores[row] for row in order))
    orders = default_orders(axes)
    defaults = tuple(
        DefaultScore(one, None, costs.seconds(one.device_grid(axes), axes, traffic)) for one in orders
    )
    starts += [one.device_grid(axes) for one in orders]
    found = search_permutation(costs, starts, axes, traffic)
    return Answer(system, axes, traffic, ranking, defaults, tuple(sorted(seconds)), found)
