"""Exact merging against all cuts that there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.steps import SumTimes, chain, collective_times, unhurried
from hemiola.errors import FusionError
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import StepEvaluator, evaluate
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.merge import merge_gradients, merged_buckets
from hemiola.fusion.plan import Bucket, FusionPlan

ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), min_size=1, max_size=7)


def step_of(rows: list[tuple[int, int]]) -> tuple[OpGraph, list[float]]:
    """An operator for each gradient, after which it is ready, and one more at the end."""
    seconds = [float(time) for time, _ in rows] + [5.0]
    return chain(seconds, [(number, 0, size) for number, (_, size) in enumerate(rows)]), seconds


def every_cut(graph: OpGraph, seconds: list[float], times: CollectiveTimes) -> float:
    """The fastest step over all buckets of neighbours, by evaluating each."""
    num = len(graph.gradients)
    found = []
    for cuts in (cut for size in range(num) for cut in combinations(range(1, num), size)):
        buckets = [Bucket(tuple(range(low, high))) for low, high in pairwise((0, *cuts, num))]
        groups = [(one,) for one in range(len(graph.operators))]
        found.append(
            evaluate(graph, FusionPlan.of(graph, groups, buckets), SumTimes(tuple(seconds)), times).seconds
        )
    return min(found)


@unhurried
@given(ROWS, collective_times(contention=False))
def test_no_cut_is_faster(rows: list[tuple[int, int]], times: CollectiveTimes) -> None:
    graph, seconds = step_of(rows)
    times = replace(times, call_seconds=0.0)
    home = np.arange(len(seconds), dtype=np.int32)
    buckets, found = merged_buckets(StepEvaluator(graph, times), np.array(seconds), home)
    plan = FusionPlan.of(graph, [(one,) for one in range(len(seconds))], buckets)
    assert found == pytest.approx(evaluate(graph, plan, SumTimes(tuple(seconds)), times).seconds)
    assert found == pytest.approx(every_cut(graph, seconds, times))


@unhurried
@given(ROWS, collective_times())
def test_with_contention_and_calls_the_time_is_that_of_the_buckets(
    rows: list[tuple[int, int]], times: CollectiveTimes
) -> None:
    graph, seconds = step_of(rows)
    home = np.arange(len(seconds), dtype=np.int32)
    buckets, found = merged_buckets(StepEvaluator(graph, times), np.array(seconds), home)
    plan = FusionPlan.of(graph, [(one,) for one in range(len(seconds))], buckets)
    assert found == pytest.approx(evaluate(graph, plan, SumTimes(tuple(seconds)), times).seconds)


def test_a_high_latency_merges_all_and_none_merges_nothing() -> None:
    ready, sizes = [1.0, 2.0, 3.0, 4.0], [10, 10, 10, 10]
    dear = CollectiveTimes.line(latency=100.0, seconds_per_byte=0.01, num_workers=2)
    cut, end = merge_gradients(ready, sizes, dear, 4.0)
    assert (cut, end) == ([range(4)], 4 + 100.4)
    free = CollectiveTimes.line(latency=0.0, seconds_per_byte=0.01, num_workers=2)
    cut, end = merge_gradients(ready, sizes, free, 4.0)
    assert end == pytest.approx(4.1)
    assert cut[-1] == range(3, 4), "the last gradient goes alone"


def test_the_optimizer_makes_the_last_bucket_smaller() -> None:
    ready, sizes = [0.0, 0.0], [90, 10]
    times = CollectiveTimes.line(latency=1.0, seconds_per_byte=0.1, num_workers=2)
    assert merge_gradients(ready, sizes, times, 0.0)[0] == [range(2)]
    slow = replace(times, optimizer_seconds_per_byte=0.1)
    assert merge_gradients(ready, sizes, slow, 0.0)[0] == [range(1), range(1, 2)]


def test_falling_times_are_refused() -> None:
    with pytest.raises(FusionError, match="do not fall"):
        merge_gradients([2.0, 1.0], [1, 1], CollectiveTimes.line(1.0, 1.0, 2), 2.0)
