"""The time of a step: closed forms, and the slow simulation as the judge of everything else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.slow_step import slow_period
from fusion.steps import SumTimes, chain, collective_times, graphs, plans, unhurried
from hemiola.collectives import CollectiveKind
from hemiola.fusion.collective_times import CollectiveTimes, MessageTimes
from hemiola.fusion.evaluate import TrainingStepTime, evaluate, simulated_step
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan
from hemiola.placement.score import exposed
from hemiola.placement.traffic import Traffic, TrafficRequest

LINE = CollectiveTimes.line(latency=2.0, seconds_per_byte=0.1, num_workers=4)
SPLIT = BucketForm.SPLIT


def singles(graph: OpGraph) -> list[tuple[int, ...]]:
    return [(one,) for one in range(len(graph.operators))]


def timed(
    graph: OpGraph, buckets: list[Bucket], own: list[float], times: CollectiveTimes = LINE
) -> TrainingStepTime:
    return evaluate(graph, FusionPlan.of(graph, singles(graph), buckets), SumTimes(tuple(own)), times)


def test_one_bucket_of_everything_is_compute_and_then_communication() -> None:
    own = [5.0, 7.0, 11.0]
    graph = chain(own, [(1, 0, 100), (2, 0, 50)])
    found = timed(graph, [Bucket((0, 1))], own)
    assert found.seconds == pytest.approx(23 + 2 + 15)
    assert (found.compute_seconds, found.communication_seconds, found.exposed_seconds) == pytest.approx(
        (23, 17, 17)
    )


def test_communication_that_fits_behind_computation_is_not_exposed() -> None:
    own = [1.0, 100.0]
    found = timed(chain(own, [(0, 0, 100)]), [Bucket((0,))], own)
    assert (found.seconds, found.exposed_seconds) == pytest.approx((101, 0))


def test_buckets_follow_each_other_as_under_ddp() -> None:
    own = [10.0, 10.0, 10.0]
    graph = chain(own, [(0, 0, 150), (1, 0, 150), (2, 0, 50)])
    found = timed(graph, [Bucket((0,)), Bucket((1,)), Bucket((2,))], own)
    assert found.seconds == pytest.approx(10 + 17 + 17 + 7)
    merged = timed(graph, [Bucket((0,)), Bucket((1, 2))], own)
    assert merged.seconds == pytest.approx(30 + 22), "waits for its last member"


def test_a_bucket_that_is_first_in_order_keeps_the_stream_until_it_is_ready() -> None:
    own = [10.0, 50.0]
    graph = chain(own, [(0, 0, 100), (1, 0, 10)])
    found = timed(graph, [Bucket((1,)), Bucket((0,))], own)
    assert found.seconds == pytest.approx(60 + 3 + 12)


def test_a_message_that_needs_a_fifth_of_the_core_leaves_four_fifths() -> None:
    own = [1.0, 100.0]
    times = replace(LINE, contention_seconds_per_byte=0.2 * 12 / 100)
    found = timed(chain(own, [(0, 0, 100)]), [Bucket((0,))], own, times)
    assert found.seconds == pytest.approx(1 + 100 + 0.2 * 12)
    assert found.contended_seconds == pytest.approx(0.2 * 12)


def test_a_message_that_needs_the_whole_core_has_half_of_it() -> None:
    own = [1.0, 6.0]
    times = replace(LINE, contention_seconds_per_byte=12 / 100)
    found = timed(chain(own, [(0, 0, 100)]), [Bucket((0,))], own, times)
    assert found.seconds == pytest.approx(1 + 12 + 6), "both at half speed for 12, and then the message alone"


def test_an_all_gather_hides_behind_the_next_forward_pass() -> None:
    own = [30.0, 30.0, 30.0]
    graph = chain(own, [(2, 2, 200)])
    alone = timed(graph, [Bucket((0,))], own)
    split = timed(graph, [Bucket((0,), SPLIT)], own)
    assert alone.seconds == pytest.approx(90 + 22)
    assert split.seconds == pytest.approx(90 + 11), (
        "the reduce-scatter is exposed, the all-gather ends before group 2"
    )


def test_a_group_waits_for_the_all_gather_of_what_it_reads() -> None:
    own = [3.0, 30.0]
    graph = chain(own, [(1, 1, 200)])
    found = timed(graph, [Bucket((0,), SPLIT)], own)
    assert found.seconds == pytest.approx(11 + 11 + 30)


def test_parts_let_the_first_reader_begin_early() -> None:
    own = [10.0, 10.0]
    graph = chain(own, [(1, 0, 100), (1, 1, 100)])
    whole = timed(graph, [Bucket((0, 1), SPLIT)], own)
    cut = timed(graph, [Bucket((0, 1), SPLIT, 2)], own)
    assert whole.seconds == pytest.approx(11 + 11 + 20)
    assert cut.seconds == pytest.approx(12 + 6 + 20)


def test_the_optimizer_of_the_last_bucket_is_exposed() -> None:
    own = [10.0, 10.0]
    graph = chain(own, [(0, 0, 20), (1, 0, 50)])
    times = replace(LINE, optimizer_seconds_per_byte=0.1, optimizer_call_seconds=1.0)
    found = timed(graph, [Bucket((0,)), Bucket((1,))], own, times)
    assert found.seconds == pytest.approx(20 + 7 + 6), "that of the first runs while the second travels"


def test_overlap_with_one_computation_is_what_placements_are_scored_by() -> None:
    """Of placement/score: requests that overlap with a computation, all there when it begins."""
    seconds, available = np.array([[3.0], [9.0]]), 8.0
    request = TrafficRequest(CollectiveKind.ALLREDUCE, ("data",), 1, 1, "backward", "gradients")
    scored = float(exposed(seconds, Traffic((request, request), {"backward": available})).sum())
    graph = chain([0.0, available], [(0, 0, 30), (0, 0, 90)])
    times = CollectiveTimes.line(latency=0.0, seconds_per_byte=0.1, num_workers=4)
    found = timed(graph, [Bucket((0,)), Bucket((1,))], [0.0, available], times)
    assert found.exposed_seconds == pytest.approx(scored) == pytest.approx(4.0)


@unhurried
@given(st.data())
def test_the_slow_simulation_agrees(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    plan: FusionPlan = data.draw(plans(graph))
    times = data.draw(collective_times())
    seconds = [float(data.draw(st.integers(0, 50))) for _ in plan.groups]
    first, period = slow_period(graph, plan, seconds, times)
    fixed = _Fixed(dict(zip(plan.groups, seconds, strict=True)))
    found = evaluate(graph, plan, fixed, times)
    expected = period if any(bucket.form is SPLIT for bucket in plan.buckets) else first
    assert found.seconds == pytest.approx(expected, rel=1e-6, abs=1e-6)
    total = found.compute_seconds + found.exposed_seconds + found.contended_seconds
    assert found.seconds == pytest.approx(total, rel=1e-9, abs=1e-9)


@unhurried
@given(st.data())
def test_the_recorded_step_is_the_same_one(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    plan: FusionPlan = data.draw(plans(graph))
    times = data.draw(collective_times())
    seconds = {group: float(data.draw(st.integers(0, 50))) for group in plan.groups}
    quick = simulated_step(graph, plan, _Fixed(seconds), times, record=False)
    recorded = simulated_step(graph, plan, _Fixed(seconds), times, record=True)
    assert recorded.seconds == pytest.approx(quick.seconds, rel=1e-9)
    tasks = np.reshape(recorded.tasks, (-1, 2))
    assert tasks[-1, 1] == pytest.approx(recorded.seconds, rel=1e-9, abs=1e-9)
    assert (np.diff(tasks.ravel()) >= -1e-9).all(), "one after another"
    assert (np.diff(recorded.message_spans) >= -1e-9).all()


def test_sizes_of_a_table_ascend() -> None:
    with pytest.raises(Exception, match="ascend"):
        MessageTimes((2.0, 2.0), (1.0, 1.0), 0.0)


class _Fixed:
    def __init__(self, seconds: dict[tuple[int, ...], float]) -> None:
        self.known = seconds

    def seconds(self, groups: object) -> np.ndarray:
        return np.array([self.known[group] for group in groups])  # type: ignore[attr-defined]
