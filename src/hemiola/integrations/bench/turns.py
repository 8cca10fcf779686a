"""turns: every team does a block of calls, then the next, round after round, so that all see the same machine.

A machine that slows down for a second slows whoever has his turn then; medians over rounds forget it. While
one team works all others sleep. The order rotates, so that nobody always follows the same neighbour.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hemiola.integrations.bench.contestant import Task
from hemiola.integrations.bench.team import Team

BLOCK_SECONDS = 0.05
"""About how long a block is: long beside the moment in which its ranks wake up."""
MAX_CALLS = 10_000


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per call, one number a block."""

    blocks: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.blocks)

    @property
    def spread(self) -> tuple[float, float]:
        """The quickest and the slowest."""
        return min(self.blocks), max(self.blocks)


def take_turns(teams: Sequence[Team], task: Task, num_rounds: int) -> Mapping[str, Times]:
    """The times of every team for a task, each the slowest rank's; raises RunError when a result is wrong."""
    calls = {}
    for team in teams:
        team.prepare(task)
        calls[team.name] = _calls_in_a_block(team)
    blocks: dict[str, list[float]] = {team.name: [] for team in teams}
    for turn in range(num_rounds):
        first = turn % len(teams)
        for team in (*teams[first:], *teams[:first]):
            blocks[team.name].append(team.time_block(calls[team.name]))
    for team in teams:
        team.release()
    return {name: Times(tuple(times)) for name, times in blocks.items()}


def _calls_in_a_block(team: Team) -> int:
    """As many as fill a block, by two short ones that also warm up."""
    team.time_block(1)
    seconds = team.time_block(3)
    return max(1, min(MAX_CALLS, round(BLOCK_SECONDS / max(seconds, 1e-9))))
