"""This machine as a system: a rank for each core, and how fast the cores add and copy, alone and all together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from threading import Barrier

import numpy as np

from hemiola import _core
from hemiola._core import ElementType, Operator
from hemiola.topology.system import Compute, Level, Link, System

THIS_MACHINE = "this-machine"
ABOUT = "the cores of this machine, measured when it is asked for; ranks share memory"
BUFFER_BYTES = 32 << 20
"""More than a core's share of a cache."""
ROUND_SECONDS = 0.05
NUM_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class CoreRates:
    """What one core does alone, and all of them together, in bytes of result per second."""

    num_cores: int
    add: float
    copy: float
    all_add: float
    all_copy: float


def this_machine(num_ranks: int | None = None) -> System:
    """The machine that this process runs on, measured; by default with a rank for each core that it may use.

    What a rank sends to another on the same host is copied by a core, so a rank's link is as fast as a core copies.
    """
    rates = measure_cores()
    name = THIS_MACHINE if num_ranks is None else f"{THIS_MACHINE}:{num_ranks}"
    return System(
        name=name,
        levels=(Level("rank", num_ranks or rates.num_cores, Link(rates.copy, rates.copy)),),
        about=f"{rates.num_cores} cores, measured",
        compute=Compute(rates.add, rates.copy, rates.all_add, rates.all_copy),
    )


@cache
def measure_cores() -> CoreRates:
    """Measure once in a process; each rate is the best of a few rounds, caches bypassed or not.

    Threads will do: the core adds and copies without the interpreter's lock.
    """
    cores = len(os.sched_getaffinity(0))
    add, copy = _measure(1)
    all_add, all_copy = _measure(cores)
    # Alone a core cannot be slower than among others: where it was measured so, something else was running.
    return CoreRates(
        cores, max(add, all_add / cores), max(copy, all_copy / cores), max(add, all_add), max(copy, all_copy)
    )


def _measure(num_threads: int) -> tuple[float, float]:
    """Additions and copies of so many threads together, in bytes per second."""
    barrier = Barrier(num_threads)
    with ThreadPoolExecutor(num_threads) as pool:
        found = list(pool.map(lambda _: _measure_one(barrier), range(num_threads)))
    adds, copies = (max(map(sum, zip(*(one[what] for one in found), strict=True))) for what in (0, 1))
    return adds, copies


def _measure_one(barrier: Barrier) -> tuple[list[float], list[float]]:
    a, b = (np.ones(BUFFER_BYTES // 4, np.float32) for _ in range(2))
    adds, copies = [], []
    for number in range(NUM_ROUNDS):
        stream = number % 2 == 0
        barrier.wait()
        adds.append(_rate(lambda: _core.reduce(a, a, b, ElementType.FLOAT32, Operator.SUM, stream)))  # noqa: B023
        barrier.wait()
        copies.append(_rate(lambda: _core.copy(a, b, stream)))  # noqa: B023
    return adds, copies


def rate_of(work: Callable[[], None], num_bytes: int, seconds: float) -> float:
    """Bytes per second of some work on ``num_bytes``, done again and again for so long."""
    begin, times = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begin) < seconds or not times:
        work()
        times += 1
    return times * num_bytes / elapsed


def _rate(work: Callable[[], None]) -> float:
    return rate_of(work, BUFFER_BYTES, ROUND_SECONDS)
