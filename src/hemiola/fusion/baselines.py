"""baselines: what frameworks do by default, each as a plan that the same simulator times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from hemiola.fusion.evaluate import StepEvaluator, evaluate, first_groups
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.group_times import GroupTimes
from hemiola.fusion.merge import merged_buckets
from hemiola.fusion.plan import Bucket, FusionPlan, Group

BUCKET_BYTES = 25 << 20
"""Of DistributedDataParallel."""
FIRST_BUCKET_BYTES = 1 << 20
"""Its first bucket is smaller, so that communication begins early."""
NUM_GROUPS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Numbers of groups that are tried where operators alone are fused."""


def baseline_plans(
    evaluator: StepEvaluator,
    times: GroupTimes,
    *,
    bucket_bytes: int = BUCKET_BYTES,
    first_bucket_bytes: int = FIRST_BUCKET_BYTES,
) -> Mapping[str, FusionPlan]:
    """By name; operator fusion alone and merging alone are searched for, everything else is fixed."""
    graph = evaluator.graph
    unfused, whole = single_groups(graph), whole_group(graph)
    apart = single_buckets(graph, unfused)
    ddp = ddp_buckets(graph, bucket_bytes, first_bucket_bytes)
    together = (Bucket(tuple(range(len(graph.gradients)))),) if graph.gradients else ()
    return {
        "nothing fused": FusionPlan.of(graph, unfused, apart),
        "one graph, an all-reduce per gradient": FusionPlan.of(graph, whole, apart),
        "one graph, DDP's buckets": FusionPlan.of(graph, whole, ddp),
        "all merged": FusionPlan.of(graph, whole, together),
        "operator fusion alone": operator_fusion_alone(evaluator, times),
        "merging alone": merging_alone(evaluator, times),
    }


def operator_fusion_alone(evaluator: StepEvaluator, times: GroupTimes) -> FusionPlan:
    """The best of some numbers of equal groups, with an all-reduce for each gradient."""
    graph, collectives = evaluator.graph, evaluator.collectives
    plans = []
    for number in NUM_GROUPS:
        groups = equal_groups(graph, number)
        plans.append(FusionPlan.of(graph, groups, single_buckets(graph, groups)))
    return min(plans, key=lambda plan: evaluate(graph, plan, times, collectives).seconds)


def merging_alone(evaluator: StepEvaluator, times: GroupTimes) -> FusionPlan:
    """Nothing fused, and gradients merged exactly."""
    groups = single_groups(evaluator.graph)
    seconds = np.ascontiguousarray(times.seconds(groups), np.float64)
    buckets, _ = merged_buckets(evaluator, seconds, first_groups(evaluator.graph, groups))
    return FusionPlan.of(evaluator.graph, groups, buckets)


def single_groups(graph: OpGraph) -> list[Group]:
    """Every operator alone."""
    return [(one,) for one in range(len(graph.operators))]


def whole_group(graph: OpGraph) -> list[Group]:
    """All operators together."""
    return [tuple(range(len(graph.operators)))]


def equal_groups(graph: OpGraph, number: int) -> list[Group]:
    """Neighbours in the order of the graph, about as many operators in each group."""
    ends = sorted({len(graph.operators) * part // number for part in range(number + 1)})
    return [tuple(range(low, high)) for low, high in pairwise(ends)]


def single_buckets(graph: OpGraph, groups: Sequence[Group]) -> tuple[Bucket, ...]:
    """Every gradient alone, as they are made."""
    return tuple(Bucket((one,)) for one in order_of_making(graph, groups))


def order_of_making(graph: OpGraph, groups: Sequence[Group]) -> list[int]:
    """Gradients in the order in which groups make them; those of one group in the order of its operators."""
    home, made = first_groups(graph, groups), graph.producers
    makers = [made[gradient.tensor] for gradient in graph.gradients]
    return sorted(range(len(makers)), key=lambda one: (int(home[makers[one]]), makers[one], one))


def ddp_buckets(graph: OpGraph, bucket_bytes: int, first_bucket_bytes: int) -> tuple[Bucket, ...]:
    """As DistributedDataParallel does: parameters in reverse order; a bucket is full when it has reached its size."""
    buckets: list[Bucket] = []
    held: list[int] = []
    size = 0
    for gradient in reversed(range(len(graph.gradients))):
        held.append(gradient)
        size += graph.gradients[gradient].num_bytes
        if size >= (bucket_bytes if buckets else first_bucket_bytes):
            buckets.append(Bucket(tuple(held)))
            held, size = [], 0
    if held:
        buckets.append(Bucket(tuple(held)))
    return tuple(buckets)
