"""SearchState: a grouping with its seconds and its buckets; CostTable: what groups and steps cost, each asked for once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from hemiola.fusion.evaluate import BucketTables, StepEvaluator
from hemiola.fusion.group_sequence import Change, GroupSequence
from hemiola.fusion.group_times import GroupTimes, Seconds
from hemiola.fusion.plan import Bucket, FusionPlan, Group

Progress = Callable[[int, float], None]
"""Called with the number of candidates so far and the best seconds."""


class SearchEnded(Exception):  # noqa: N818
    """All candidates have been looked at."""


@dataclass(frozen=True)
class SearchState:
    """A plan as the search sees it."""

    grouping: GroupSequence
    seconds: Seconds
    """Of each group."""
    buckets: tuple[Bucket, ...]
    cost: float

    @property
    def plan(self) -> FusionPlan:
        """For those outside."""
        return FusionPlan.of(self.grouping.graph, self.grouping.groups, self.buckets)


@dataclass
class CostTable:
    """Counts candidates and keeps the best."""

    evaluator: StepEvaluator
    times: GroupTimes
    max_candidates: int
    progress: Progress | None = None
    num_candidates: int = 0
    best: SearchState | None = None
    _known: dict[Group, float] = field(default_factory=dict)

    def ask(self, groups: Iterable[Group]) -> None:
        """Look up the seconds of groups, all that are new in one question."""
        new = list(dict.fromkeys(group for group in groups if group not in self._known))
        if new:
            found = np.asarray(self.times.seconds(new), np.float64).tolist()
            self._known.update(zip(new, found, strict=True))

    def seconds(self, groups: Sequence[Group]) -> Seconds:
        """Of each group."""
        self.ask(groups)
        return np.array([self._known[group] for group in groups], np.float64)

    def seconds_after(self, state: SearchState, change: Change) -> Seconds:
        """Of each group after a change."""
        new = [self._known[group] for group in change.groups]
        return np.concatenate((state.seconds[: change.first], new, state.seconds[change.end :]))

    def merged(self, grouping: GroupSequence, seconds: Seconds) -> SearchState:
        """With the best all-reduces for these groups."""
        evaluator, home = self.evaluator, grouping.home
        found = evaluator.model.merge_step(
            seconds, evaluator.ready_groups(home), evaluator.read_groups(home), False
        )
        gradients = found.gradients.tolist()
        buckets = tuple(Bucket(tuple(gradients[low:high])) for low, high in pairwise(found.first.tolist()))
        return self.count(SearchState(grouping, seconds, buckets, found.seconds))

    def with_buckets(
        self, grouping: GroupSequence, seconds: Seconds, buckets: tuple[Bucket, ...]
    ) -> SearchState:
        """With given buckets."""
        result = self.evaluator.step(seconds, grouping.home, BucketTables.of(buckets))
        return self.count(SearchState(grouping, seconds, buckets, result.seconds))

    def count(self, state: SearchState) -> SearchState:
        """One candidate more; remembers the best, and ends the search when it is over."""
        self.num_candidates += 1
        if self.best is None or state.cost < self.best.cost:
            self.best = state
            if self.progress is not None:
                self.progress(self.num_candidates, state.cost)
        if self.num_candidates >= self.max_candidates:
            raise SearchEnded
        return state
