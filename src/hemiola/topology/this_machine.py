"""``this_machine``: this machine as a system with a rank per core, and the measured rates at which its cores add and copy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
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
"""Larger than the part of a cache that one core has."""
ROUND_SECONDS = 0.05
NUM_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class CoreRates:
    """The rates of one core alone, and of all cores together, in bytes of result per second."""

    num_cores: int
    add: float
    copy: float
    all_add: float
    all_copy: float


def this_machine(num_ranks: int | None = None) -> System:
    """The machine that this process runs on, measured; by default with a rank for each core that it may use.

    A message between ranks of one host is copied by a core, so the link of a rank is as fast as a core copies.
    """
    rates = measure_cores()
    name = THIS_MACHINE if num_ranks is None else f"{THIS_MACHINE}:{num_ranks}"
    return System(
        name=name,
        levels=(Level("rank", num_ranks or rates.num_cores, Link(rates.copy, rates.copy)),),
        about=f"{rates.num_cores} cores, measured",
        compute=Compute(rates.add, rates.copy, rates.all_add, rates.all_copy, host_cores=rates.num_cores),
    )


@cache
def measure_cores() -> CoreRates:
    """Measure the cores, once per process; each rate is the best of a few rounds, half of which bypass the caches.

    Threads are enough for this, because the C++ core adds and copies without the GIL.
    """
    cores = len(os.sched_getaffinity(0))
    add, copy = _measure(1)
    all_add, all_copy = _measure(cores)
    # One core alone cannot be slower than with others busy; where it was measured so, another process was running.
    return CoreRates(
        cores, max(add, all_add / cores), max(copy, all_copy / cores), max(add, all_add), max(copy, all_copy)
    )


def _measure(num_threads: int) -> tuple[float, float]:
    """The rates of additions and copies of several threads together, in bytes per second."""
    barrier = Barrier(num_threads)
    from concurrent.futures import ThreadPoolExecutor  # only where this machine is measured

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
    """Bytes per second of a function that works on ``num_bytes``, called repeatedly for some seconds."""
    begin, times = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begin) < seconds or not times:
        work()
        times += 1
    return times * num_bytes / elapsed


def _rate(work: Callable[[], None]) -> float:
    return rate_of(work, BUFFER_BYTES, ROUND_SECONDS)
