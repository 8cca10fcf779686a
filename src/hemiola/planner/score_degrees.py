"""score_degrees: the step time and memory of degrees, under the framework's order of devices and under the best placement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hemiola.errors import JobError
from hemiola.placement.defaults import default_orders
from hemiola.placement.enumerate import level_counts
from hemiola.placement.matrix import ParallelismMatrix
from hemiola.placement.score import PlacementScore, rank_placements, score_placements
from hemiola.placement.traffic import Traffic
from hemiola.planner.degrees import Degrees, all_degrees, why_not
from hemiola.planner.job import ModelJob
from hemiola.planner.memory import MemoryUse, memory_use
from hemiola.planner.step_time import JobStepTime, job_traffic, step_time
from hemiola.topology.system import System


@dataclass(frozen=True)
class DegreesScore:
    """Degrees, what they need and how long a step takes; communication is estimated."""

    degrees: Degrees
    memory: MemoryUse
    traffic: Traffic
    step: JobStepTime
    """Under the best placement."""
    default_step: JobStepTime
    """Under the framework's own order of devices; the same as ``step`` where no matrix describes that order."""
    bound: JobStepTime
    """If every collective took as long as its bound, under the best placement."""
    matrix: ParallelismMatrix
    num_placements: int

    @property
    def seconds(self) -> float:
        """Of a step under the best placement."""
        return self.step.seconds

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "degrees": self.degrees.to_json(),
            "step": self.step.to_json(),
            "default_seconds": self.default_step.seconds,
            "bound_seconds": self.bound.seconds,
            "memory": self.memory.to_json(),
            "matrix": [list(row) for row in self.matrix.rows],
            "axes": {axis.name: axis.size for axis in self.matrix.axes},
        }


@dataclass(frozen=True)
class DegreesRanking:
    """All degrees that fit, fastest first, and how many do not fit."""

    scores: tuple[DegreesScore, ...]
    num_too_large: int


def rank_degrees(job: ModelJob, system: System) -> DegreesRanking:
    """Every combination that divides, keeps the framework's rules and fits the memory."""
    fitting, too_large = [], 0
    for degrees in all_degrees(job.model, system.num_ranks, job.micro_batch):
        memory = memory_use(job.model, job.training, degrees)
        if memory.fits(job.device.memory_bytes):
            fitting.append((degrees, memory))
        else:
            too_large += 1
    if not fitting and not too_large:
        size = f" with microbatches of {job.micro_batch}" if job.micro_batch else ""
        raise JobError(
            f"no degrees divide {system.num_ranks} devices, {job.model.heads} heads, sequences of {job.model.seq} and a batch of"
            f" {job.model.global_batch}{size} evenly; take a batch that is a multiple of more numbers"
        )
    if not fitting:
        raise JobError(
            f"none of {too_large} degrees fits into {job.device.memory_bytes / 1e9:.0f} GB of {job.device.name}; take more devices, a smaller"
            " microbatch, or training: {recompute: full}"
        )
    scores = [score_degrees(job, system, degrees, memory) for degrees, memory in fitting]
    return DegreesRanking(tuple(sorted(scores, key=lambda score: score.seconds)), too_large)


def score_degrees(
    job: ModelJob, system: System, degrees: Degrees, memory: MemoryUse | None = None
) -> DegreesScore:
    """One combination; refused where a rule of frameworks does."""
    reason = why_not(degrees, job.model)
    if reason is not None:
        raise JobError(f"axes: {degrees.text}: {reason}")
    model, training, device = job.model, job.training, job.device
    traffic = job_traffic(model, training, degrees, device)
    ranking = rank_placements(system, degrees.axes, traffic, 1)
    best = ranking.scores[0]
    default = _default_score(degrees, system, traffic)

    def step(score: PlacementScore, *, bound: bool = False) -> JobStepTime:
        return step_time(model, training, degrees, device, score.times, bound=bound)

    if default is None or default.seconds <= best.seconds * (1 + 1e-9):
        best = default or best  # of equals the framework's own order stays
    return DegreesScore(
        degrees,
        memory or memory_use(model, training, degrees),
        traffic,
        step(best),
        step(default or best),
        step(best, bound=True),
        best.matrix,
        ranking.num_placements,
    )


def _default_score(degrees: Degrees, system: System, traffic: Traffic) -> PlacementScore | None:
    """Of the framework's order, which is that of `Degrees.axes`; None where an axis straddles units."""
    matrix = default_orders(degrees.axes)[0].matrix(degrees.axes, level_counts(system))
    return None if matrix is None else score_placements([matrix], system, traffic)[0]
