"""measure: plans and libraries take turns on the wire of a lab, and what the processor did meanwhile is noted."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hemiola.integrations.bench.contestant import Task
from hemiola.integrations.bench.team import Team
from hemiola.lab.usage import MOST_BUSY, Usage

LONG_SECONDS = 0.25
"""A call that takes longer is timed alone; of shorter ones as many as fill this time, after one that is not counted."""
MAX_CALLS = 200


@dataclass(frozen=True, slots=True)
class Entrant:
    """Who is to be measured at what."""

    label: str
    team: Team
    task: Task
    wire_seconds: float | None = None
    """What the bytes of its plan need on the busiest cable, where it is known."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds per call of an entrant, one number a round."""

    label: str
    rounds: tuple[float, ...]
    busy: float
    """The part of all cores' time that was used while it had its turns."""
    wire_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """How far the quickest or slowest round was from the median, as a part of it."""
        return max(abs(each - self.seconds) for each in self.rounds) / self.seconds

    @property
    def wire_part(self) -> float | None:
        """The time on the wire alone as a part of the whole: 1 is as fast as the busiest cable allows."""
        return None if self.wire_seconds is None else self.wire_seconds / self.seconds

    @property
    def counts(self) -> bool:
        """Whether it was the wire that was measured."""
        return self.busy <= MOST_BUSY


def measure(entrants: Sequence[Entrant], num_rounds: int) -> list[Measured]:
    """Let all take turns, round after round; raises RunError when a result is wrong."""
    for entrant in entrants:
        entrant.team.prepare(entrant.task, entrant.label)
    calls = {entrant.label: _calls_in_a_turn(entrant) for entrant in entrants}
    rounds: dict[str, list[float]] = {entrant.label: [] for entrant in entrants}
    ticks: dict[str, list[tuple[Usage, Usage]]] = {entrant.label: [] for entrant in entrants}
    for turn in range(num_rounds):
        first = turn % len(entrants)
        for entrant in (*entrants[first:], *entrants[:first]):
            number, before = calls[entrant.label], Usage.now()
            seconds = entrant.team.time_block(number, entrant.label, warm=int(number > 1))
            rounds[entrant.label].append(seconds)
            ticks[entrant.label].append((before, Usage.now()))
    for team in {id(entrant.team): entrant.team for entrant in entrants}.values():
        team.release()
    return [
        Measured(
            entrant.label, tuple(rounds[entrant.label]), _busy(ticks[entrant.label]), entrant.wire_seconds
        )
        for entrant in entrants
    ]


def _calls_in_a_turn(entrant: Entrant) -> int:
    seconds = entrant.team.time_block(1, entrant.label, warm=0)
    return max(1, min(MAX_CALLS, int(LONG_SECONDS / max(seconds, 1e-9))))


def _busy(spans: Sequence[tuple[Usage, Usage]]) -> float:
    total = sum(after.total - before.total for before, after in spans)
    idle = sum(after.idle - before.idle for before, after in spans)
    return 1 - idle / total if total else 0.0
