"""turns: every backend runs a block of calls, then the next backend, round after round, so that all see the same machine.

A machine that slows down for a second slows only the blocks that run then, and the median over the rounds removes
them. While one backend works all others sleep. The order rotates, so that no backend always runs after the same one.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hemiola.integrations.bench.backend import Task
from hemiola.integrations.bench.backend_processes import BackendProcesses

BLOCK_SECONDS = 0.05
"""About how long a block takes: much longer than its ranks need to wake up."""
MAX_CALLS = 10_000


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per call of one backend, one number per block."""

    blocks: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the blocks."""
        return statistics.median(self.blocks)

    @property
    def spread(self) -> tuple[float, float]:
        """The quickest and the slowest block."""
        return min(self.blocks), max(self.blocks)


def take_turns(backends: Sequence[BackendProcesses], task: Task, num_rounds: int) -> Mapping[str, Times]:
    """The times of every backend for a task, those of its slowest rank; raises RunError when a result is wrong."""
    calls = {}
    for backend in backends:
        backend.prepare(task)
        calls[backend.name] = _calls_in_a_block(backend)
    blocks: dict[str, list[float]] = {backend.name: [] for backend in backends}
    for turn in range(num_rounds):
        first = turn % len(backends)
        for backend in (*backends[first:], *backends[:first]):
            blocks[backend.name].append(backend.time_block(calls[backend.name]))
    for backend in backends:
        backend.release()
    return {name: Times(tuple(times)) for name, times in blocks.items()}


def _calls_in_a_block(backend: BackendProcesses) -> int:
    """How many calls fill a block, estimated from two short blocks that also warm the caches."""
    backend.time_block(1)
    seconds = backend.time_block(3)
    return max(1, min(MAX_CALLS, round(BLOCK_SECONDS / max(seconds, 1e-9))))
