"""profile_operators: the seconds of every operator of a captured step on this machine, kept between runs."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from hemiola.cache import keep, read_kept
from hemiola.errors import FusionError
from hemiola.fusion.operator_times import OperatorTime, OperatorTimes, summarize
from hemiola.fusion.plan import Group
from hemiola.integrations.torch.capture import CapturedStep
from hemiola.integrations.torch.measuring.device import describe_device
from hemiola.integrations.torch.measuring.generate_labels import (
    NUM_PROCESSES,
    at_best,
    first_operators,
)
from hemiola.integrations.torch.measuring.group_task import integer_values, make_task
from hemiola.integrations.torch.measuring.processes import LocalWorkers, MeasuringWorkers
from hemiola.integrations.torch.measuring.timing import Timing

METHOD = 1
"""Goes up when operators are timed in another way, so that times kept before are not used."""


@dataclass(frozen=True, slots=True)
class OperatorProfile:
    """The times, and how noisy the machine was."""

    times: OperatorTimes
    num_measured: int
    """Signatures that were not known before."""
    reference_spread: float
    """How far the reference kernel was from its fastest, at the median of what was measured now; 0.05 is a quiet machine."""


def profile_operators(
    step: CapturedStep,
    given: Sequence[Tensor],
    *,
    workers: MeasuringWorkers | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> OperatorProfile:
    """Measure what is not kept yet, each signature in several processes, and keep it.

    ``given`` are the parameters, the buffers and the batch of the step: the values of indices are taken from them.
    """
    known = _read()
    operators = step.graph.operators
    missing = [group for group in first_operators(step.graph) if operators[group[0]].signature not in known]
    timings = _measure(step, given, missing, workers or LocalWorkers(1), progress) if missing else []
    references = [timing.reference_seconds for one in timings for timing in one]
    best = min(references, default=1.0)
    for group, found in zip(missing, timings, strict=True):
        known[operators[group[0]].signature] = summarize([at_best(timing, best) for timing in found])
    _keep(known)
    wanted = {one.signature: known[one.signature] for one in operators}
    spread = statistics.median(references) / best - 1 if references else 0.0
    return OperatorProfile(OperatorTimes(wanted), len(missing), spread)


def _measure(
    step: CapturedStep,
    given: Sequence[Tensor],
    groups: Sequence[Group],
    workers: MeasuringWorkers,
    progress: Callable[[int, int], None],
) -> list[list[Timing]]:
    """The times of every group, one of each process."""
    integers = integer_values(step, given)
    tasks = [make_task(step, group, integers) for group in groups]
    found: list[list[Timing]] = [[] for _ in groups]
    for done, (_, outcomes) in enumerate(workers.measure([tasks] * NUM_PROCESSES)):
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, str):
                name = step.graph.operators[groups[at][0]].name
                raise FusionError(
                    f"operator {name!r} of graph {step.graph.name!r} cannot be run alone: {outcome}"
                )
            found[at].append(outcome)
        progress(done + 1, NUM_PROCESSES)
    return found


def _file() -> str:
    digest = hashlib.sha256(f"{METHOD} {describe_device()}".encode()).hexdigest()[:16]
    return f"operator-times-{digest}.json"


def _read() -> dict[str, OperatorTime]:
    kept = read_kept(_file())
    if not isinstance(kept, dict):
        return {}
    return {name: OperatorTime(float(pair[0]), float(pair[1])) for name, pair in kept.items()}


def _keep(times: dict[str, OperatorTime]) -> None:
    keep(_file(), {name: [one.seconds, one.spread] for name, one in times.items()})
