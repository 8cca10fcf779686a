"""The search: never worse than what was there, the same for the same seed, and near the best that there is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fusion.steps import SumTimes, chain, collective_times, graphs, unhurried
from hemiola.fusion.baselines import baseline_plans, ddp_buckets
from hemiola.fusion.bounds import least_operator_seconds, step_bounds
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import StepEvaluator, evaluate, first_groups
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.group_times import GroupTimes
from hemiola.fusion.merge import merged_buckets
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan
from hemiola.fusion.reference_search import reference_search
from hemiola.fusion.search import SearchOptions, search
from hemiola.fusion.synthetic.models import MODELS, transformer
from hemiola.fusion.synthetic.roofline_times import GPU, Roofline, RooflineTimes

DEVICE = Roofline(100.0, 50.0, 0.5, 1.0)
"""Of the small graphs: tensors of about a hundred bytes."""


def step_of(name: str, ratio: float = 1.0) -> tuple[OpGraph, RooflineTimes, CollectiveTimes]:
    """A model on a device, with communication that takes so many times as long as computation."""
    graph = MODELS[name]()
    times = RooflineTimes(graph, GPU)
    whole = float(times.seconds([tuple(range(len(graph.operators)))])[0])
    return graph, times, CollectiveTimes.line(30e-6, ratio * whole / graph.gradient_bytes, 4)


@settings(unhurried, max_examples=30)
@given(graphs(), collective_times(), st.booleans(), st.integers(1, 300))
def test_no_result_is_slower_than_a_baseline_or_faster_than_its_bound(
    graph: OpGraph, collectives: CollectiveTimes, split: bool, candidates: int
) -> None:
    times = RooflineTimes(graph, DEVICE)
    found = search(graph, times, collectives, SearchOptions(max_candidates=candidates, split=split))
    found.plan.check(graph)
    assert found.step.seconds <= min(found.baselines.values()) * (1 + 1e-12)
    assert found.step.seconds == evaluate(graph, found.plan, times, collectives).seconds
    assert found.num_candidates <= candidates
    assert split or all(bucket.form is BucketForm.ALLREDUCE for bucket in found.plan.buckets)
    least = least_operator_seconds(
        graph, times, bytes_per_second=DEVICE.bytes_per_second, call_seconds=DEVICE.call_seconds
    )
    assert found.step.seconds >= step_bounds(graph, least, collectives).of(found.plan) * (1 - 1e-6)


@settings(unhurried, max_examples=15, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 80)), min_size=2, max_size=6), st.integers(0, 20)
)
def test_a_short_chain_is_solved_as_by_trying_all(rows: list[tuple[int, int]], call: int) -> None:
    """All cuts of a chain into groups, each with its best buckets; a search is no proof, and may end a little above."""
    own = [float(seconds) for seconds, _ in rows]
    graph = chain(own, [(number, 0, size) for number, (_, size) in enumerate(rows)])
    times: GroupTimes = SumTimes(tuple(own), float(call))
    collectives = CollectiveTimes.line(5.0, 0.5, 2)
    evaluator = StepEvaluator(graph, collectives)
    best = float("inf")
    for bits in range(1 << (len(own) - 1)):
        cuts = [0, *(one + 1 for one in range(len(own) - 1) if bits >> one & 1), len(own)]
        groups = [tuple(range(low, high)) for low, high in pairwise(cuts)]
        home = first_groups(graph, groups)
        best = min(best, merged_buckets(evaluator, times.seconds(groups), home)[1])
    found = search(graph, times, collectives, SearchOptions(max_candidates=800))
    assert found.step.seconds <= best * 1.005


def test_the_same_seed_gives_the_same_plan_and_more_candidates_none_worse() -> None:
    graph, times, collectives = step_of("vgg19")
    first, again, longer = (
        search(graph, times, collectives, SearchOptions(seed=3, max_candidates=number, split=True))
        for number in (400, 400, 2000)
    )
    assert first == again
    assert longer.step.seconds <= first.step.seconds


def test_an_interrupt_gives_the_best_so_far() -> None:
    graph, times, collectives = step_of("vgg19")
    seen: list[float] = []

    def stop(candidates: int, seconds: float) -> None:
        seen.append(seconds)
        if len(seen) == 4:
            raise KeyboardInterrupt

    found = search(graph, times, collectives, progress=stop)
    assert found.interrupted
    assert found.step.seconds <= min(seen) * (1 + 1e-12)
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize("name", ["vgg19", "llama"])
def test_ours_beats_the_reference_with_ten_times_the_candidates(name: str) -> None:
    graph, times, collectives = step_of(name)
    ours = search(graph, times, collectives, SearchOptions(max_candidates=300))
    reference = reference_search(graph, times, collectives, max_candidates=3000, patience=3000)
    reference.plan.check(graph)
    assert ours.step.seconds <= reference.step.seconds
    assert reference.step.seconds < evaluate(graph, unfused(graph), times, collectives).seconds


def test_splitting_is_used_where_it_helps() -> None:
    graph, times, collectives = step_of("vgg19")
    whole = search(graph, times, collectives, SearchOptions(max_candidates=1500))
    split = search(graph, times, collectives, SearchOptions(max_candidates=1500, split=True))
    assert split.step.seconds < 0.95 * whole.step.seconds
    assert any(bucket.form is BucketForm.SPLIT for bucket in split.plan.buckets)


def unfused(graph: OpGraph) -> FusionPlan:
    return FusionPlan.of(
        graph,
        [(one,) for one in range(len(graph.operators))],
        [Bucket((one,)) for one in range(len(graph.gradients))],
    )


def test_baselines_are_plans_and_ddp_fills_buckets_from_the_last_parameter_on() -> None:
    graph = transformer(2, 64, 32)
    plans = baseline_plans(
        StepEvaluator(graph, CollectiveTimes.line(1e-4, 1e-9, 4)), RooflineTimes(graph, GPU)
    )
    for plan in plans.values():
        plan.check(graph)
    sizes = [gradient.num_bytes for gradient in graph.gradients]
    buckets = ddp_buckets(graph, 40_000, 10_000)
    order = [one for bucket in buckets for one in bucket.gradients]
    assert order == list(reversed(range(len(sizes))))
    for number, bucket in enumerate(buckets[:-1]):
        limit = 10_000 if number == 0 else 40_000
        assert sum(sizes[one] for one in bucket.gradients) >= limit
        assert sum(sizes[one] for one in bucket.gradients[:-1]) < limit
