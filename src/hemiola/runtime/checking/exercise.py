"""``run_exercise``: runs a plan on random data with all its ranks on this machine, checks every element, and times it.

The first run makes the connections and is not counted. Before each run the buffers are filled again and a barrier
synchronises the ranks; after it every element is compared with its expected value. The time of a run is that of its
slowest rank.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hemiola.ir.plan import Plan, Rows
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.checking.check import Wrong, expect
from hemiola.runtime.checking.trial import Buffers, Trial
from hemiola.runtime.communicator.arrays import Array
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.launch import RankKind, run_ranks
from hemiola.runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class Exercise:
    """What to run, on what data, and how often."""

    plan: Plan
    """A plan that is either in place or out of place, not both."""
    trial: Trial
    settings: Settings
    repeat: int
    keeps_input: bool
    """Whether the plan was proven to leave its input unchanged; then the input is checked, too."""
    traced: bool = False
    """Whether one more run at the end records every step."""


@dataclass(frozen=True, slots=True)
class RankReport:
    """The results of one rank."""

    seconds: tuple[float, ...]
    wrong: Wrong | None
    num_checked: int
    num_bytes: int
    """The size of the larger of its input and its output."""
    events: Rows | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of all ranks together."""

    seconds: tuple[float, ...]
    """The time of the slowest rank, one number per run."""
    wrong: Wrong | None
    """The wrong element of the lowest rank that has one."""
    num_checked: int
    """The number of elements that were checked in one run, of all ranks together."""
    num_bytes: int
    """The size of the largest input or output of any rank."""
    events: dict[int, Rows]
    """The recorded steps by rank, where the exercise was traced."""

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self.seconds)


def run_exercise(exercise: Exercise, *, kind: RankKind) -> Outcome:
    """Run an exercise on the ranks of its plan; raises RunError when a rank fails."""
    reports = run_ranks(exercise.plan.num_ranks, _be_rank, exercise, kind=kind)
    return _gather(reports)


def _gather(reports: Sequence[RankReport]) -> Outcome:
    return Outcome(
        seconds=tuple(map(max, zip(*(report.seconds for report in reports), strict=True))),
        wrong=next((report.wrong for report in reports if report.wrong is not None), None),
        num_checked=sum(report.num_checked for report in reports),
        num_bytes=max(report.num_bytes for report in reports),
        events={rank: report.events for rank, report in enumerate(reports) if report.events is not None},
    )


def _be_rank(rank: int, store: Store, exercise: Exercise) -> RankReport:
    trial, plan = exercise.trial, exercise.plan
    buffers, expectation = trial.make_buffers(rank), expect(trial, rank)
    given, taken = trial.hand_over(buffers)
    seconds, events = [], None
    wrong: Wrong | None = None
    with Communicator(rank, plan.num_ranks, store=store, settings=exercise.settings) as world:
        for _ in range(1 + exercise.repeat):
            seconds.append(_run_once(world, exercise, buffers, given, taken))
            wrong = wrong or expectation.check_output(buffers.output)
            if exercise.keeps_input:
                wrong = wrong or expectation.check_input(buffers.input)
        if exercise.traced:
            trial.fill(rank, buffers)
            world.barrier()
            events = world.trace(plan, given, taken, op=trial.op)
            wrong = wrong or expectation.check_output(buffers.output)
    num_bytes = max(buffers.input.nbytes, buffers.output.nbytes)
    return RankReport(tuple(seconds[1:]), wrong, expectation.num_checked, num_bytes, events)


def _run_once(world: Communicator, exercise: Exercise, buffers: Buffers, given: Array, taken: Array) -> float:
    exercise.trial.fill(world.rank, buffers)
    world.barrier()
    begin = time.perf_counter()
    world.run(exercise.plan, given, taken, op=exercise.trial.op)
    seconds = time.perf_counter() - begin
    world.barrier()  # otherwise the first rank to end would check while others are still being timed
    return seconds
