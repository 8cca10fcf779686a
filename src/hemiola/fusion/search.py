"""search: the best fusion plan that can be found with a number of candidates.

Exact merging chooses the buckets of every grouping, so the search is one over groupings. It begins with groups of neighbours in the order of the
graph that end where gradients are made, few and large or many and small, and improves the best of them: a batch of moves is drawn, the
estimator is asked once for all groups that are new, and the best move is made. Where no move helps any more, the best plan is shaken by random moves
and improved again. With split buckets, forms and parts are improved in between, and moves are judged with the buckets of the plan that they change.
The same seed and number of candidates give the same plan, and an interrupt gives the best so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np

from hemiola.fusion.baselines import baseline_plans
from hemiola.fusion.bucket_search import MIN_GAIN, first_split, improve_buckets
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import Numbers, StepEvaluator, TrainingStepTime, evaluate
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.group_sequence import Change, GroupSequence
from hemiola.fusion.group_times import GroupTimes, Seconds
from hemiola.fusion.merge import merged_buckets
from hemiola.fusion.plan import Bucket, FusionPlan, Group
from hemiola.fusion.proposals import Proposals
from hemiola.fusion.search_state import CostTable, Progress, SearchEnded, SearchState

NUM_SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of groups with which the search begins."""
BATCH = 16
"""Moves whose groups are estimated together."""
PATIENCE = 12
"""Batches without a better plan before the next restart."""
NUM_STARTS = 3
"""Plans from which the search goes on after the first look."""
POLISHED = 1.01
"""Plans up to so many times as slow as the best are worth a look at every gradient."""
BUCKETS_EVERY = 8
"""Moves after which split buckets are improved again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How much is searched."""

    seed: int = 0
    max_candidates: int = 20_000
    """Plans that are evaluated."""
    split: bool = False
    """Buckets may be split into a reduce-scatter and an all-gather in the next forward pass."""


DEFAULTS = SearchOptions()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best plan, beside what was there before."""

    plan: FusionPlan
    step: TrainingStepTime
    num_candidates: int
    baselines: Mapping[str, float]
    """Seconds of each."""
    interrupted: bool
    """The search was stopped before it had looked at all its candidates."""


def search(
    graph: OpGraph,
    times: GroupTimes,
    collectives: CollectiveTimes,
    options: SearchOptions = DEFAULTS,
    *,
    baselines: Mapping[str, FusionPlan] | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """The best plan found; never one that is slower than the best baseline."""
    evaluator = StepEvaluator(graph, collectives)
    known = baselines if baselines is not None else baseline_plans(evaluator, times)
    table = CostTable(evaluator, times, options.max_candidates, progress)
    interrupted = False
    try:
        _Search(table, options, Random(options.seed)).run(list(known.values()))
    except SearchEnded:
        pass
    except KeyboardInterrupt:
        interrupted = True
    seconds = {name: evaluate(graph, plan, times, collectives).seconds for name, plan in known.items()}
    plans = [*known.values(), *([table.best.plan] if table.best else [])]
    best = min(plans, key=lambda plan: evaluate(graph, plan, times, collectives).seconds)
    best.check(graph)
    step = evaluate(graph, best, times, collectives)
    return SearchResult(best, step, table.num_candidates, seconds, interrupted)


@dataclass
class _Search:
    table: CostTable
    options: SearchOptions
    random: Random

    def run(self, baselines: list[FusionPlan]) -> None:
        """Until all candidates are spent, which raises SearchEnded."""
        graph = self.table.evaluator.graph
        starts = [self._start(GroupSequence.of(graph, plan.groups)) for plan in baselines]
        starts += [self._start(GroupSequence.of(graph, groups)) for groups in self._segmented()]
        starts = sorted({state.grouping.groups: state for state in starts}.values(), key=lambda one: one.cost)
        finished = [self._improve(state) for state in starts[:NUM_STARTS]]
        best = min(finished, key=lambda one: one.cost)
        while True:
            found = self._improve(self._shaken(best))
            best = min(best, found, key=lambda one: one.cost)

    def _start(self, grouping: GroupSequence) -> SearchState:
        seconds = self.table.seconds(grouping.groups)
        state = self.table.merged(grouping, seconds)
        return first_split(self.table, state) if self.options.split else state

    def _segmented(self) -> list[list[Group]]:
        """Neighbours in the order of the graph, cut where gradients are made, at about equal distances in time."""
        graph = self.table.evaluator.graph
        own = self.table.seconds([(one,) for one in range(len(graph.operators))])
        makers = np.unique(self.table.evaluator.gradient_operators)
        rows = []
        for number in NUM_SEGMENTS:
            if number > len(makers) + 1:
                break
            rows.append(segments(own, makers, number))
        return rows

    def _improve(self, state: SearchState) -> SearchState:
        """Moves until none of many helps; then the buckets once more, gradient by gradient."""
        failures = accepted = 0
        tried: set[Change] = set()
        while failures < PATIENCE:
            found = self._best_move(state, tried)
            if found is None or found.cost >= state.cost * (1 - MIN_GAIN):
                failures += 1
                continue
            state, failures, accepted = found, 0, accepted + 1
            tried.clear()
            if self.options.split and accepted % BUCKETS_EVERY == 0:
                state = improve_buckets(self.table, state, split=True)
        return self._polished(state)

    def _best_move(self, state: SearchState, tried: set[Change]) -> SearchState | None:
        changes = Proposals(self.table, state, self.random).draw(BATCH, tried)
        tried.update(changes)
        self.table.ask(group for change in changes for group in change.groups)
        found = [self._moved(state, change) for change in changes]
        return min(found, key=lambda one: one.cost, default=None)

    def _moved(self, state: SearchState, change: Change) -> SearchState:
        grouping = state.grouping.changed(change)
        seconds = self.table.seconds_after(state, change)
        if not self.options.split:
            return self.table.merged(grouping, seconds)
        ready = self.table.evaluator.ready_groups(grouping.home)
        return self.table.with_buckets(grouping, seconds, in_order(state.buckets, ready))

    def _polished(self, state: SearchState) -> SearchState:
        """Where it may become the best: buckets gradient by gradient, and whatever exact merging does not look at."""
        if self.table.best is not None and state.cost > POLISHED * self.table.best.cost:
            return state
        buckets, _ = merged_buckets(self.table.evaluator, state.seconds, state.grouping.home)
        apart = self.table.with_buckets(state.grouping, state.seconds, buckets)
        state = min(state, apart, key=lambda one: one.cost)
        return improve_buckets(self.table, state, split=self.options.split)

    def _shaken(self, state: SearchState) -> SearchState:
        """After a few random moves, whatever they cost."""
        for _ in range(self.random.randint(2, 6)):
            changes = Proposals(self.table, state, self.random).draw(1, set())
            if changes:
                self.table.ask(changes[0].groups)
                state = self._moved(state, changes[0])
        return state


def segments(own: Seconds, makers: Numbers, number: int) -> list[Group]:
    """The operators in order, cut after some of those that make gradients: about equally far apart in time from the first of them on."""
    ends = np.cumsum(own)
    times = ends[makers]
    wanted = times[0] + (ends[-1] - times[0]) * np.arange(number - 1) / max(number - 1, 1)
    places = np.unique(np.searchsorted(times, wanted).clip(max=len(makers) - 1))
    cuts = sorted({0, len(own), *(int(makers[place]) + 1 for place in places[: number - 1])})
    return [tuple(range(low, high)) for low, high in pairwise(cuts)]


def in_order(buckets: tuple[Bucket, ...], ready: Numbers) -> tuple[Bucket, ...]:
    """Buckets in the order in which their last gradients are ready."""
    keys = [int(ready[list(bucket.gradients)].max()) for bucket in buckets]
    return tuple(buckets[number] for number in sorted(range(len(buckets)), key=lambda one: (keys[one], one)))
