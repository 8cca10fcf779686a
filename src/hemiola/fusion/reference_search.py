"""reference_search: the backtracking search of the DisCo paper, as the rival that ours is compared with.

Plans wait in a queue by their cost, from the one without any fusion on. The best is taken out, and for each of three moves (fusing an operator with one
that it reads, the same with the latter kept, and merging neighbouring all-reduces) a plan is made by applying it up to BETA times at random. What costs
at most ALPHA times the best is queued. The search ends after so many candidates without a better one. Nothing in it splits again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

from hemiola.fusion import moves
from hemiola.fusion.baselines import single_buckets, single_groups
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import StepEvaluator, TrainingStepTime, evaluate
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.group_sequence import Change, GroupSequence
from hemiola.fusion.group_times import GroupTimes
from hemiola.fusion.plan import Bucket
from hemiola.fusion.search import SearchResult, in_order
from hemiola.fusion.search_state import CostTable, Progress, SearchEnded, SearchState

ALPHA = 1.05
BETA = 10
PATIENCE = 1000
"""Candidates without a better plan after which the search ends."""

Move = Callable[[GroupSequence, int, int], Change | None]


def reference_search(
    graph: OpGraph,
    times: GroupTimes,
    collectives: CollectiveTimes,
    *,
    seed: int = 0,
    max_candidates: int = 1_000_000,
    patience: int = PATIENCE,
    progress: Progress | None = None,
) -> SearchResult:
    """The plan that the paper's search finds."""
    table = CostTable(StepEvaluator(graph, collectives), times, max_candidates, progress)
    with suppress(SearchEnded):
        _backtrack(table, Random(seed), patience)
    assert table.best is not None
    step: TrainingStepTime = evaluate(graph, table.best.plan, times, collectives)
    return SearchResult(table.best.plan, step, table.num_candidates, {}, interrupted=False)


def _backtrack(table: CostTable, random: Random, patience: int) -> None:
    graph = table.evaluator.graph
    groups = single_groups(graph)
    grouping = GroupSequence.of(graph, groups)
    start = table.with_buckets(grouping, table.seconds(groups), single_buckets(graph, groups))
    queue = [(start.cost, 0, start)]
    best, failures, serial = start.cost, 0, 0
    while queue and failures < patience:
        _, _, state = heapq.heappop(queue)
        for apply in (_fused(moves.fuse), _fused(moves.duplicate), _merged):
            found = apply(table, state, random, random.randint(0, BETA))
            failures = 0 if found.cost < best else failures + 1
            best = min(best, found.cost)
            if found.cost <= ALPHA * best:
                serial += 1
                heapq.heappush(queue, (found.cost, serial, found))


def _fused(move: Move) -> Callable[[CostTable, SearchState, Random, int], SearchState]:
    """A group is fused with one that it reads, so many times at random."""

    def apply(table: CostTable, state: SearchState, random: Random, times: int) -> SearchState:
        grouping, seconds = state.grouping, state.seconds
        for _ in range(times):
            late = random.randrange(len(grouping.groups))
            reads = sorted(grouping.reads(late))
            change = move(grouping, random.choice(reads), late) if reads else None
            if change is not None:
                table.ask(change.groups)
                now = SearchState(grouping, seconds, state.buckets, state.cost)
                grouping, seconds = grouping.changed(change), table.seconds_after(now, change)
        ready = table.evaluator.ready_groups(grouping.home)
        return table.with_buckets(grouping, seconds, in_order(state.buckets, ready))

    return apply


def _merged(table: CostTable, state: SearchState, random: Random, times: int) -> SearchState:
    """Two neighbouring all-reduces become one, so many times at random."""
    buckets = state.buckets
    for _ in range(min(times, len(buckets) - 1)):
        place = random.randrange(len(buckets) - 1)
        both = replace(buckets[place], gradients=buckets[place].gradients + buckets[place + 1].gradients)
        buckets = _replaced(buckets, place, both)
    return table.with_buckets(state.grouping, state.seconds, buckets)


def _replaced(buckets: tuple[Bucket, ...], place: int, bucket: Bucket) -> tuple[Bucket, ...]:
    return (*buckets[:place], bucket, *buckets[place + 2 :])
