"""measure: plans and libraries run in turns on the network of a lab, and the load of the processor is recorded with each."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hemiola.integrations.bench.backend import Task
from hemiola.integrations.bench.backend_processes import BackendProcesses
from hemiola.lab.usage import MOST_BUSY, Usage

LONG_SECONDS = 0.25
"""A call that takes longer is timed alone. Of shorter calls a turn has as many as fill this time, after one that is not
counted."""
MAX_CALLS = 200


@dataclass(frozen=True, slots=True)
class BenchCase:
    """One line of a measurement: a backend and the task that it runs."""

    label: str
    backend: BackendProcesses
    task: Task
    wire_seconds: float | None = None
    """The time that the bytes of its plan need on the busiest cable; None where the plan is not known."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds per call of a case, one number per round."""

    label: str
    rounds: tuple[float, ...]
    busy: float
    """The fraction of all cores' time that was used during its turns."""
    wire_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """The largest distance of a round from the median, as a fraction of the median."""
        return max(abs(each - self.seconds) for each in self.rounds) / self.seconds

    @property
    def wire_part(self) -> float | None:
        """The time on the busiest cable alone as a fraction of the measured time; 1 is as fast as the cable allows."""
        return None if self.wire_seconds is None else self.wire_seconds / self.seconds

    @property
    def counts(self) -> bool:
        """Whether the network was the limit: with a busy processor the time says little about the network."""
        return self.busy <= MOST_BUSY


def measure(cases: Sequence[BenchCase], num_rounds: int) -> list[Measured]:
    """Measure all cases in turns, round after round; raises RunError when a result is wrong."""
    for case in cases:
        case.backend.prepare(case.task, case.label)
    calls = {case.label: _calls_in_a_turn(case) for case in cases}
    rounds: dict[str, list[float]] = {case.label: [] for case in cases}
    ticks: dict[str, list[tuple[Usage, Usage]]] = {case.label: [] for case in cases}
    for turn in range(num_rounds):
        first = turn % len(cases)
        for case in (*cases[first:], *cases[:first]):
            number, before = calls[case.label], Usage.now()
            seconds = case.backend.time_block(number, case.label, warm=int(number > 1))
            rounds[case.label].append(seconds)
            ticks[case.label].append((before, Usage.now()))
    for backend in {id(case.backend): case.backend for case in cases}.values():
        backend.release()
    return [
        Measured(case.label, tuple(rounds[case.label]), _busy(ticks[case.label]), case.wire_seconds)
        for case in cases
    ]


def _calls_in_a_turn(case: BenchCase) -> int:
    seconds = case.backend.time_block(1, case.label, warm=0)
    return max(1, min(MAX_CALLS, int(LONG_SECONDS / max(seconds, 1e-9))))


def _busy(spans: Sequence[tuple[Usage, Usage]]) -> float:
    total = sum(after.total - before.total for before, after in spans)
    idle = sum(after.idle - before.idle for before, after in spans)
    return 1 - idle / total if total else 0.0
