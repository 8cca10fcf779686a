"""evaluate: how long a training step takes under a fusion plan, in the steady state.

The compute stream runs the groups in the plan's order, and then the optimizer of every message. The communication stream takes the
messages of buckets in the plan's order: each waits until its last gradient is there, and for the messages before it. All-gathers of
split buckets follow in the order in which the next step's groups read their parameters; a group waits for those that it reads.
While a message is under way it takes its share of the core, and computation is slower by that. The walk over both streams is
C++ (csrc/fusion/); `tests/fusion/slow_step.py` is the slow reference that judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hemiola._core import StepModel, StepResult
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.group_times import GroupTimes, Seconds
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan, Group

Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TrainingStepTime:
    """Where the time of a step goes: seconds = compute + contended + exposed."""

    seconds: float
    """From the begin of a step to that of the next, once they are alike."""
    compute_seconds: float
    """Of groups, copies, calls and the optimizer, were they alone."""
    communication_seconds: float
    """Of all messages, were they alone."""
    exposed_seconds: float
    """Computation waits for messages."""
    contended_seconds: float
    """By so much messages make computation slower."""

    @staticmethod
    def of(result: StepResult) -> TrainingStepTime:
        """The numbers of a simulated step."""
        return TrainingStepTime(
            result.seconds, result.compute, result.communication, result.exposed, result.contended
        )


@dataclass(frozen=True)
class BucketTables:
    """Buckets as columns, for the simulator."""

    first: Numbers
    gradients: Numbers
    split: npt.NDArray[np.uint8]
    parts: Numbers

    @staticmethod
    def of(buckets: Sequence[Bucket]) -> BucketTables:
        """Of a plan's buckets."""
        lengths = [len(bucket.gradients) for bucket in buckets]
        return BucketTables(
            np.cumsum([0, *lengths], dtype=np.int32),
            np.array([one for bucket in buckets for one in bucket.gradients], np.int32),
            np.array([bucket.form is BucketForm.SPLIT for bucket in buckets], np.uint8),
            np.array([bucket.num_parts for bucket in buckets], np.int32),
        )


@dataclass(frozen=True)
class StepEvaluator:
    """Steps of one graph with one set of collective times."""

    graph: OpGraph
    collectives: CollectiveTimes

    @cached_property
    def model(self) -> StepModel:
        """The C++ side."""
        sizes = np.array([gradient.num_bytes for gradient in self.graph.gradients], np.float64)
        return StepModel(self.collectives.step_costs, sizes)

    @cached_property
    def gradient_operators(self) -> Numbers:
        """The operator that makes each gradient."""
        made = self.graph.producers
        return np.array([made[gradient.tensor] for gradient in self.graph.gradients], np.int32)

    @cached_property
    def _readers(self) -> tuple[Numbers, Numbers]:
        """The operators that read each gradient's parameter, in one row, and where each gradient's begin."""
        rows = [readers or (0,) for readers in self.graph.readers]
        first = np.cumsum([0, *map(len, rows)], dtype=np.int32)[:-1]
        return np.array([one for row in rows for one in row], np.int32), first

    def ready_groups(self, home: Numbers) -> Numbers:
        """The group that makes each gradient, by the first group of every operator."""
        return home[self.gradient_operators]

    def read_groups(self, home: Numbers) -> Numbers:
        """The first group that reads each gradient's parameter; where no reader is known, the first of all."""
        readers, first = self._readers
        if not len(first):
            return np.zeros(0, np.int32)
        known = np.array([bool(row) for row in self.graph.readers])
        found: Numbers = np.where(known, np.minimum.reduceat(home[readers], first), 0).astype(np.int32)
        return found

    def step(
        self, seconds: Seconds, home: Numbers, buckets: BucketTables, *, record: bool = False
    ) -> StepResult:
        """The steady state of groups with these seconds, when operator i is first computed by group ``home[i]``."""
        ready, read = self.ready_groups(home), self.read_groups(home)
        return self.model.evaluate(
            seconds, ready, read, buckets.first, buckets.gradients, buckets.split, buckets.parts, record
        )


def first_groups(graph: OpGraph, groups: Sequence[Group]) -> Numbers:
    """The first group that computes each operator."""
    home = np.zeros(len(graph.operators), np.int32)
    for number in range(len(groups) - 1, -1, -1):
        home[list(groups[number])] = number
    return home


def evaluate(
    graph: OpGraph, plan: FusionPlan, times: GroupTimes, collectives: CollectiveTimes
) -> TrainingStepTime:
    """How long a step takes under a plan."""
    return TrainingStepTime.of(simulated_step(graph, plan, times, collectives, record=False))


def simulated_step(
    graph: OpGraph, plan: FusionPlan, times: GroupTimes, collectives: CollectiveTimes, *, record: bool
) -> StepResult:
    """The same with the begin and the end of everything, where they are recorded."""
    seconds = np.ascontiguousarray(times.seconds(plan.groups), np.float64)
    home = first_groups(graph, plan.groups)
    evaluator = StepEvaluator(graph, collectives)
    return evaluator.step(seconds, home, BucketTables.of(plan.buckets), record=record)
