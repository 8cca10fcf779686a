"""Memory estimate: how long a collective takes on one host whose cores add and copy in memory, and do nothing else.

A sum over R ranks needs R - 1 additions of what is summed, wherever they happen, and whatever a rank ends up
with and did not have must be written once. With S bytes (`collectives.kinds`):

| collective | bytes added, all ranks together | bytes copied, all ranks together |
|---|---|---|
| allreduce, in place | (R - 1) S | (R - 1) S |
| reducescatter | (R - 1) S | 0 |
| allgather | 0 | R S |
| alltoall | 0 | R S |
| broadcast, in place | 0 | (R - 1) S |

bound = added / (additions of all cores, in bytes of result per second) + copied / (copies of all cores). The
two rates are measured with all cores busy, on memory that no cache holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hemiola import _core
from hemiola._core import Operator
from hemiola.collectives import CollectiveKind
from hemiola.integrations.bench.backend import Task
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.numbers import NUMBERS
from hemiola.runtime.launch import run_ranks
from hemiola.topology.this_machine import rate_of

BUFFER_BYTES = 64 << 20
ROUND_SECONDS = 0.1
NUM_ROUNDS = 8

WORK: Mapping[CollectiveKind, Callable[[int], tuple[int, int]]] = {
    CollectiveKind.ALLREDUCE: lambda r: (r - 1, r - 1),
    CollectiveKind.REDUCESCATTER: lambda r: (r - 1, 0),
    CollectiveKind.ALLGATHER: lambda r: (0, r),
    CollectiveKind.ALLTOALL: lambda r: (0, r),
    CollectiveKind.BROADCAST: lambda r: (0, r - 1),
}
"""From the number of ranks: what must be added and copied, in bytes of the collective."""


FORMULAS: Mapping[CollectiveKind, str] = {
    CollectiveKind.ALLREDUCE: "(R - 1) S / additions + (R - 1) S / copies",
    CollectiveKind.REDUCESCATTER: "(R - 1) S / additions",
    CollectiveKind.ALLGATHER: "R S / copies",
    CollectiveKind.ALLTOALL: "R S / copies",
    CollectiveKind.BROADCAST: "(R - 1) S / copies",
}
"""The same as formulas for people."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast all cores together add and copy, in bytes of result per second."""

    num_cores: int
    add_bytes_per_second: float
    copy_bytes_per_second: float


def bound_seconds(task: Task, rates: Rates) -> float:
    """The memory estimate: data that stays in caches can beat it."""
    added, copied = WORK[task.kind](task.num_ranks)
    adding = added * task.num_bytes / rates.add_bytes_per_second
    return adding + copied * task.num_bytes / rates.copy_bytes_per_second


def measure_rates(element: str) -> Rates:
    """Measure with one process per core, all at once: the best of a few rounds, half of which bypass the caches."""
    cores = len(os.sched_getaffinity(0))
    found = run_ranks(cores, _measure_core, cores, element, kind="processes")
    adds, copies = (max(map(sum, zip(*(core[what] for core in found), strict=True))) for what in (0, 1))
    return Rates(cores, adds, copies)


def _measure_core(rank: int, store: Store, cores: int, element: str) -> tuple[list[float], list[float]]:
    """Additions and copies of one core in bytes per second, round by round."""
    kind, storage = NUMBERS[element].type, NUMBERS[element].storage
    a, b = (np.ones(BUFFER_BYTES // storage.itemsize, storage) for _ in range(2))
    adds, copies = [], []
    for number in range(NUM_ROUNDS):
        stream = number % 2 == 0
        _barrier(store, f"add{number}", rank, cores)
        adds.append(_rate(lambda: _core.reduce(a, a, b, kind, Operator.SUM, stream)))  # noqa: B023
        _barrier(store, f"copy{number}", rank, cores)
        copies.append(_rate(lambda: _core.copy(a, b, stream)))  # noqa: B023
    return adds, copies


def _rate(work: Callable[[], None]) -> float:
    return rate_of(work, BUFFER_BYTES, ROUND_SECONDS)


def _barrier(store: Store, where: str, rank: int, count: int) -> None:
    store.set(f"{where}/{rank}", b"")
    for other in range(count):
        store.get(f"{where}/{other}")
