"""fuse: the best joint choice of groups and buckets for a step, beside its bounds and what frameworks do by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from hemiola.fusion.baselines import (
    BUCKET_BYTES,
    FIRST_BUCKET_BYTES,
    ddp_buckets,
    merging_alone,
    single_buckets,
    single_groups,
)
from hemiola.fusion.bounds import AtLeast, StepBounds, step_bounds
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import StepEvaluator, TrainingStepTime, evaluate
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.group_times import GroupTimes, Seconds
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan
from hemiola.fusion.search import DEFAULTS, SearchOptions, search
from hemiola.fusion.search_state import Progress

MIN_GAIN = 0.01
"""A plan that is less faster than the best default is no gain that anybody would measure."""

FRAMEWORK_DEFAULTS = (
    "nothing fused",
    "one graph, DDP's buckets",
    "DDP's buckets",
    "an all-reduce per gradient",
)
"""Baselines that users have without doing anything."""


@dataclass(frozen=True)
class ComputeTimes:
    """Seconds of computation: of groups, and of every operator at least, whatever its group."""

    groups: GroupTimes
    least: Seconds
    noise: float = 0.0
    """How far measured times of one operator are apart, relative, at the median."""
    are_groups_fixed: bool = False
    """A trace says nothing of what fusing would save: then operators stay as they are, and only gradients are merged."""


@dataclass(frozen=True)
class FusionResult:
    """What was found for a step."""

    graph: OpGraph
    plan: FusionPlan
    step: TrainingStepTime
    bounds: StepBounds
    baselines: Mapping[str, float]
    """Seconds of what frameworks do, and of each part alone."""
    source: str
    """Where the seconds of collectives come from."""
    noise: float
    num_candidates: int
    interrupted: bool
    has_fixed_groups: bool = False
    """Only gradients were merged."""

    @property
    def bound_seconds(self) -> float:
        """The bound that applies to the plan."""
        return self.bounds.of(self.plan)

    @property
    def default_seconds(self) -> float:
        """Of the fastest of what frameworks do by themselves."""
        return min(self.baselines[name] for name in FRAMEWORK_DEFAULTS if name in self.baselines)

    @property
    def is_gain(self) -> bool:
        """Whether the plan is clearly faster than that."""
        return self.step.seconds < self.default_seconds * (1 - MIN_GAIN)

    def to_json(self) -> dict[str, Any]:
        """For machines; the plan is a file of its own."""
        return {
            "model": self.graph.name,
            "seconds": self.step.seconds,
            "bound_seconds": self.bound_seconds,
            "baselines": dict(self.baselines),
            **{key: value for key, value in asdict(self.step).items() if key != "seconds"},
            "bounds": asdict(self.bounds),
            "num_operators": len(self.graph.operators),
            "num_groups": len(self.plan.groups),
            "num_buckets": len(self.plan.buckets),
            "num_split_buckets": sum(one.form is BucketForm.SPLIT for one in self.plan.buckets),
            "gradient_bytes": self.graph.gradient_bytes,
            "collective_times": self.source,
            "noise": self.noise,
            "num_candidates": self.num_candidates,
            "interrupted": self.interrupted,
        }


def fuse(
    graph: OpGraph,
    compute: ComputeTimes,
    collectives: CollectiveTimes,
    options: SearchOptions = DEFAULTS,
    *,
    progress: Progress | None = None,
) -> FusionResult:
    """Search, and compare; never slower than the best of the baselines.

    With split buckets allowed, plans without them are searched first, and the split ones are kept only where they are faster.
    """
    times = AtLeast(compute.groups, compute.least)
    if compute.are_groups_fixed:
        return _merged(graph, times, compute, collectives)
    plain = search(graph, times, collectives, replace(options, split=False), progress=progress)
    best = plain
    if options.split and not plain.interrupted:
        split = search(graph, times, collectives, options, progress=progress)
        best = split if split.step.seconds < plain.step.seconds * (1 - MIN_GAIN) else plain
    return FusionResult(
        graph,
        best.plan,
        best.step,
        step_bounds(graph, compute.least, collectives),
        plain.baselines,
        collectives.source.value,
        compute.noise,
        plain.num_candidates + (0 if best is plain else best.num_candidates),
        best.interrupted,
    )


def _merged(
    graph: OpGraph, times: GroupTimes, compute: ComputeTimes, collectives: CollectiveTimes
) -> FusionResult:
    """Gradients merged exactly for operators that stay as they are."""
    evaluator, groups = StepEvaluator(graph, collectives), single_groups(graph)
    baselines = {
        "an all-reduce per gradient": FusionPlan.of(graph, groups, single_buckets(graph, groups)),
        "DDP's buckets": FusionPlan.of(graph, groups, ddp_buckets(graph, BUCKET_BYTES, FIRST_BUCKET_BYTES)),
        "all merged": FusionPlan.of(graph, groups, [Bucket(tuple(range(len(graph.gradients))))]),
    }
    plans = [*baselines.values(), merging_alone(evaluator, times)]
    steps = [evaluate(graph, plan, times, collectives) for plan in plans]
    best = min(range(len(plans)), key=lambda number: steps[number].seconds)
    return FusionResult(
        graph,
        plans[best],
        steps[best],
        step_bounds(graph, compute.least, collectives),
        {name: step.seconds for name, step in zip(baselines, steps, strict=False)},
        collectives.source.value,
        compute.noise,
        len(plans),
        interrupted=False,
        has_fixed_groups=True,
    )
