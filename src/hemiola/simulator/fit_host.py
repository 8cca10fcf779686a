"""fit_host: what our own runtime costs where all ranks share one host, from collectives that were run for real.

Ranks that share memory move nothing over links: a step copies or adds, and all of them share the cores and the memory.
How fast all cores together add and copy is measured; fitted is which part of it the runtime gets, how much more where all
buffers fit in the caches, and what a message and a call cost. Where ranks share cores, each of them gets its turn, and
what a message and a call cost takes so many times as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from hemiola.errors import FormatError
from hemiola.ir.plan import Plan
from hemiola.simulator.replay import simulate
from hemiola.topology.system import Compute, Level, Link, Protocol, System

Amounts = npt.NDArray[np.float64]
USUAL_ERROR = 0.1
LEAST_ROWS = 6
NO_LIMIT = 1e15
"""Bytes per second of a link that is none: what passes through memory is counted where it is copied."""
CACHES = tuple(1 << power for power in range(20, 28))
"""Sizes that are tried."""


@dataclass(frozen=True, slots=True)
class Cores:
    """What all cores of a host together do, in bytes of result per second."""

    num_cores: int
    add_bandwidth: float
    copy_bandwidth: float


@dataclass(frozen=True, slots=True)
class HostRun:
    """A plan that ran on one host for an input of so many bytes a rank, and how long it took."""

    plan: Plan
    num_bytes: int
    seconds: float

    @property
    def footprint_bytes(self) -> float:
        """Of the buffers of all ranks."""
        inputs, outputs = self.plan.collective.stored_chunks()
        chunk = self.num_bytes / int(self.plan.collective.named_chunks()[0].max())
        return float(inputs.sum() + outputs.sum()) * chunk


@dataclass(frozen=True, slots=True)
class HostConstants:
    """What a runtime costs on one host."""

    memory_part: float
    """The part of the cores' rates that it gets in memory."""
    cache_gain: float
    """How many times as much it gets where all buffers are in the caches."""
    step_seconds: float
    """Of every message, while a rank has a core to itself."""
    call_seconds: float
    """Of every call, likewise."""
    cache_bytes: int

    def predict(self, run: HostRun, cores: Cores) -> float:
        """Seconds of a run."""
        num_ranks = run.plan.num_ranks
        turns = max(1.0, num_ranks / cores.num_cores)
        part = self.memory_part * (self.cache_gain if run.footprint_bytes < self.cache_bytes else 1.0)
        rate = cores.copy_bandwidth * part
        system = System(
            "one host",
            (Level("rank", num_ranks, Link(NO_LIMIT, NO_LIMIT)),),
            compute=Compute(core_bandwidth=rate / cores.num_cores, host_core_bandwidth=rate),
            protocols={"Simple": Protocol(step_seconds=self.step_seconds * turns)},
        )
        return self.call_seconds * turns + simulate(run.plan, system, run.num_bytes).seconds


START = (0.7, 1.5, 1e-6, 10e-6)
LOWEST, HIGHEST = (0.05, 1.0, 1e-9, 1e-9), (2.0, 10.0, 1e-3, 1e-2)


def fit_host(runs: Sequence[HostRun], cores: Cores) -> HostConstants:
    """The constants under which runs take as long as was measured; the size of the caches is the best of a few."""
    if len(runs) < LEAST_ROWS:
        raise FormatError(f"five constants need {LEAST_ROWS} measurements or more, and there are {len(runs)}")

    def fit(cache_bytes: int) -> tuple[float, HostConstants]:
        def errors(logs: Amounts) -> Amounts:
            part, gain, step, call = np.exp(logs).tolist()
            constants = HostConstants(part, gain, step, call, cache_bytes)
            return np.array([math.log(constants.predict(run, cores) / run.seconds) for run in runs])

        found = least_squares(
            errors, np.log(START), bounds=(np.log(LOWEST), np.log(HIGHEST)), loss="soft_l1", f_scale=USUAL_ERROR,
            diff_step=1e-3, max_nfev=60,
        )  # fmt: skip
        part, gain, step, call = (float(f"{number:.4g}") for number in np.exp(found.x))
        return float(found.cost), HostConstants(part, gain, step, call, cache_bytes)

    return min((fit(size) for size in CACHES), key=lambda one: one[0])[1]
