"""No evaluated plan is below its bound, and the bounds are reached where they should be."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.steps import SumTimes, chain, collective_times, graphs, plans, unhurried
from hemiola.fusion.bounds import AtLeast, in_step_limit, least_operator_seconds, step_bounds
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import evaluate
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan
from hemiola.fusion.synthetic.models import MODELS
from hemiola.fusion.synthetic.roofline_times import CPU_CORE, Roofline, RooflineTimes

LINE = CollectiveTimes.line(2.0, 0.1, 4)


@unhurried
@given(st.data())
def test_no_plan_is_faster_than_its_bound(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    plan: FusionPlan = data.draw(plans(graph))
    times = data.draw(collective_times())
    own = tuple(float(data.draw(st.integers(0, 30))) for _ in graph.operators)
    found = step_bounds(graph, np.array(own), times)
    seconds = evaluate(graph, plan, SumTimes(own, data.draw(st.sampled_from([0.0, 1.0]))), times).seconds
    assert seconds >= found.of(plan) * (1 - 1e-6) - 1e-9
    assert found.overlap_seconds <= found.in_step_seconds * (1 + 1e-12)
    assert found.overlap_seconds <= found.steady_seconds * (1 + 1e-12)


@unhurried
@given(st.data())
def test_no_order_of_operators_is_faster_than_the_in_step_limit(data: st.DataObject) -> None:
    """Groups of one operator each in any order in which they can run, and buckets of one gradient each as they are made."""
    graph = data.draw(graphs(max_operators=6, max_gradients=4))
    times = data.draw(collective_times(contention=False, overheads=False))
    own = tuple(float(data.draw(st.integers(0, 30))) for _ in graph.operators)
    limit = in_step_limit(graph, np.array(own), times)
    for order in permutations(range(len(own))):
        place = {one: number for number, one in enumerate(order)}
        if all(place[one] < place[two] for two in order for one in graph.predecessors[two]):
            made = [place[graph.producers[gradient.tensor]] for gradient in graph.gradients]
            buckets = [Bucket((one,)) for one in sorted(range(len(made)), key=made.__getitem__)]
            plan = FusionPlan.of(graph, [(one,) for one in order], buckets)
            assert evaluate(graph, plan, SumTimes(own), times).seconds >= limit * (1 - 1e-6)


def test_a_chain_reaches_the_in_step_limit() -> None:
    own = [10.0, 5.0, 5.0, 20.0]
    graph = chain(own, [(2, 0, 300), (3, 1, 10)])
    plan = FusionPlan.of(graph, [(one,) for one in range(4)], [Bucket((0,)), Bucket((1,))])
    free = CollectiveTimes.line(0.0, 0.1, 4)
    bounds = step_bounds(graph, np.array(own), free)
    assert bounds.in_step_seconds == pytest.approx(20 + 31)
    assert evaluate(graph, plan, SumTimes(tuple(own)), free).seconds == pytest.approx(bounds.of(plan))


def test_a_parameter_that_is_read_first_and_whose_gradient_is_last_cannot_hide() -> None:
    own = [10.0, 20.0, 30.0]
    graph = chain(own, [(2, 0, 100)])
    plan = FusionPlan.of(graph, [(0,), (1,), (2,)], [Bucket((0,), BucketForm.SPLIT)])
    bounds = step_bounds(graph, np.array(own), LINE)
    assert bounds.of(plan) == pytest.approx(60 + 12)
    assert evaluate(graph, plan, SumTimes(tuple(own)), LINE).seconds == pytest.approx(72)


def test_computation_that_gradients_do_not_need_is_not_before_them() -> None:
    """Two gradients of one second each, neither of which needs the other: only one of them can be ready after a second."""
    own = [1.0, 1.0]
    graph = chain(own, [(0, 0, 100), (1, 1, 100)])
    free = CollectiveTimes.line(0.0, 0.1, 4)
    assert in_step_limit(graph, np.array(own), free) == pytest.approx(1 + 20)


@pytest.mark.parametrize("device", [CPU_CORE, Roofline(8e12, 400e9, 0.0, 0.0)])
@pytest.mark.parametrize("name", ["vgg19", "llama"])
def test_a_wasteful_group_has_at_least_the_least_of_its_operators(name: str, device: Roofline) -> None:
    graph = MODELS[name]()
    times = RooflineTimes(graph, device)
    least = least_operator_seconds(
        graph, times, bytes_per_second=device.bytes_per_second, call_seconds=device.call_seconds
    )
    num = len(graph.operators)
    groups = [tuple(range(low, min(num, low + size))) for size in (1, 2, 7, 40, num) for low in range(0, num, size)]  # fmt: skip
    floors = np.array([least[list(group)].sum() for group in groups])
    assert (times.seconds(groups) >= floors * (1 - 1e-12)).all()
    assert (AtLeast(SumTimes((0.0,) * num), least).seconds(groups) == floors).all()
    whole = float(times.seconds([tuple(range(num))])[0])
    assert 0.5 * whole <= least.sum() <= whole, "near what is possible"
