"""plan_job: from a job to its plan: degrees, then the placement of their axes, then the collectives under it.

Degrees and placements are chosen together: every combination of degrees is scored under its best placement. What the user runs today
stays unless something is clearly faster than the errors of the prediction that both sides do not share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hemiola.errors import JobError
from hemiola.placement.axes import Axes
from hemiola.placement.place import place
from hemiola.placement.priced import MOST_REPLAYED
from hemiola.placement.score import exposed
from hemiola.placement.traffic import Traffic
from hemiola.planner.collective_choice import CollectiveChoice, choose_collectives
from hemiola.planner.degrees import MICRO_BATCHES, degrees_of, why_not
from hemiola.planner.job import Job, ModelJob
from hemiola.planner.job_plan import DegreesResult, JobPlan, applied_grid
from hemiola.planner.score_degrees import DegreesRanking, DegreesScore, rank_degrees, score_degrees
from hemiola.planner.trust import GainVerdict, compare
from hemiola.topology.system import System

Progress = Callable[[int, int], None]


def plan_job(job: Job, *, quick: bool = False, progress: Progress = lambda done, total: None) -> JobPlan:
    """Answer a job; with ``quick``, by estimates alone."""
    degrees = None if job.trained is None else _choose_degrees(job)
    if degrees is None:
        assert job.traffic is not None
        assert job.axes is not None
        axes, traffic = job.axes, job.traffic
    else:
        axes, traffic = degrees.chosen.degrees.axes, degrees.chosen.traffic
    placed = place(job.system, axes, traffic, replay=False)
    applied = _is_faster(degrees, placed.seconds, placed.default_seconds)
    grid = applied_grid(placed, applied)
    estimated = placed.seconds if applied or placed.default_seconds is None else placed.default_seconds
    if quick or job.system.num_ranks > MOST_REPLAYED:
        return JobPlan(job, degrees, placed, applied, None, estimated, None, None)
    choices = choose_collectives(job.system, grid, axes, traffic, progress)
    vendor = _exposed_seconds(traffic, choices, vendor=True)
    chosen = _exposed_seconds(traffic, choices, vendor=False)
    return JobPlan(job, degrees, placed, applied, choices, estimated, vendor, chosen)


def _choose_degrees(job: Job) -> DegreesResult:
    assert job.trained is not None
    if not job.system.is_uniform:
        raise JobError(
            f"system {job.system.name!r} is uneven, and steps of models are predicted for even systems only; give the traffic as a list,"
            " or a system without exceptions"
        )
    yours = None
    if job.axes is not None:
        yours = _score_yours(job.trained, job.system, job.axes)
    if job.search_degrees or yours is None:
        ranking = rank_degrees(job.trained, job.system)
    else:
        ranking = DegreesRanking((yours,), 0)
    fastest = ranking.scores[0]
    if yours is None:
        return DegreesResult(None, ranking.scores, ranking.num_too_large, fastest, None)
    before = replace(yours, step=yours.default_step)
    gain = compare(before.step, fastest.step)
    fits = yours.memory.fits(job.trained.device.memory_bytes)
    other = gain.verdict is GainVerdict.CLEAR or not fits
    chosen = fastest if other else yours
    return DegreesResult(yours, ranking.scores, ranking.num_too_large, chosen, gain, fits)


def _score_yours(trained: ModelJob, system: System, axes: Axes) -> DegreesScore:
    """The axes of today, with the microbatch that the job says, or the fastest that fits."""
    sizes = [trained.micro_batch] if trained.micro_batch else MICRO_BATCHES
    known = [degrees_of(axes, size) for size in sizes]
    possible = [one for one in known if why_not(one, trained.model) is None] or known[:1]
    scores = [score_degrees(trained, system, one) for one in possible]
    fitting = [one for one in scores if one.memory.fits(trained.device.memory_bytes)]
    return min(fitting, key=lambda one: one.default_step.seconds) if fitting else scores[0]


def _is_faster(degrees: DegreesResult | None, seconds: float, default_seconds: float | None) -> bool:
    """Whether the first placement is clearly faster than the framework's order."""
    if default_seconds is None:
        return True
    if degrees is None:
        return seconds < default_seconds * (1 - 1e-9)
    gain = compare(degrees.chosen.default_step, degrees.chosen.step)
    return gain.verdict is GainVerdict.CLEAR


def _exposed_seconds(traffic: Traffic, choices: tuple[CollectiveChoice, ...], *, vendor: bool) -> float:
    times = {
        id(choice.request): (choice.vendor_seconds if vendor else choice.seconds) * choice.request.per_step
        for choice in choices
    }
    each = np.array([[times.get(id(request), 0.0)] for request in traffic.requests]).reshape(-1, 1)
    return float(exposed(each, traffic).sum())
