"""What computation costs on this machine: profiled operators, the learned estimator, and what no group can beat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import torch

from hemiola.fusion.bounds import least_operator_seconds
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.estimator.learned_times import LearnedTimes
from hemiola.fusion.estimator.weights import read_weights
from hemiola.fusion.fuse import ComputeTimes
from hemiola.integrations.torch.capture import CapturedStep
from hemiola.integrations.torch.compile_step import given_values
from hemiola.integrations.torch.measuring.profile_operators import profile_operators
from hemiola.integrations.torch.models.training_step import TrainingStep

CACHED_ELEMENTS = 1 << 15
"""Of the arrays whose copy says how fast memory can be at best: they stay in a core's own cache."""
UPDATED_ELEMENTS = 1 << 21
REPEATS = 9


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """What this machine takes for a byte, on one thread."""

    best_bytes_per_second: float
    """No operator reads or writes faster."""
    copy_seconds_per_byte: float
    """Of a gradient into its bucket."""
    optimizer_seconds_per_byte: float
    """Of parameters, with AdamW."""

    def added_to(self, collectives: CollectiveTimes) -> CollectiveTimes:
        """The same collectives with what a bucket costs beside them; a copy that was measured with them stays."""
        copy = collectives.copy_seconds_per_byte or self.copy_seconds_per_byte
        return replace(
            collectives,
            copy_seconds_per_byte=copy,
            optimizer_seconds_per_byte=self.optimizer_seconds_per_byte,
        )


def compute_times(
    step: CapturedStep,
    training: TrainingStep,
    rates: DeviceRates,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ComputeTimes:
    """Profile the operators of a step, and estimate groups of them."""
    given = given_values(step, training.module, training.batch)
    profile = profile_operators(step, given, progress=progress)
    groups = LearnedTimes(step.graph, profile.times, read_weights())
    own = profile.times.seconds(step.graph)
    least = least_operator_seconds(
        step.graph, groups, bytes_per_second=rates.best_bytes_per_second, call_seconds=float(own.min())
    )
    return ComputeTimes(groups, least, profile.times.noise)


def measure_rates() -> DeviceRates:
    """A second of copies and updates."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        small, other = torch.rand(CACHED_ELEMENTS), torch.zeros(CACHED_ELEMENTS)
        cached = min(_seconds(lambda: torch.mul(small, 0.5, out=other), 50) for _ in range(REPEATS))
        large, bucket = torch.rand(UPDATED_ELEMENTS), torch.zeros(UPDATED_ELEMENTS)
        copied = median(_seconds(lambda: torch.mul(large, 0.5, out=bucket), 2) for _ in range(REPEATS))
        parameter = torch.nn.Parameter(large)
        parameter.grad = bucket
        optimizer = torch.optim.AdamW([parameter])
        updated = median(_seconds(optimizer.step, 2) for _ in range(REPEATS))
    finally:
        torch.set_num_threads(threads)
    return DeviceRates(
        8 * CACHED_ELEMENTS / cached, copied / (4 * UPDATED_ELEMENTS), updated / (4 * UPDATED_ELEMENTS)
    )


def _seconds(action: Callable[[], object], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - begin) / times
