"""fit_host: what our own runtime costs where all ranks share one host, from collectives that were run for real.

Ranks that share memory move nothing over links: a step copies or adds, on the one core that the rank has at that moment.
How fast all cores together copy is measured, and how large the caches are is known; fitted is which part of the rate the runtime gets in
memory, how much more where all buffers fit in the caches, and what a call costs. Where there are more ranks than cores, they take turns: a call takes so many times as
long, and a rank finds less in the caches than it left there, so that the gain is another one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.errors import FormatError
from hemiola.ir.plan import Plan
from hemiola.simulator.replay import simulate
from hemiola.topology.system import Compute, Level, Link, System

Amounts = npt.NDArray[np.float64]
USUAL_ERROR = 0.1
LEAST_ROWS = 6
NO_LIMIT = 1e15
"""Bytes per second of a link that is none: what passes through memory is counted where it is copied."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores of a host, and the caches that they share."""

    num_cores: int
    copy_bandwidth: float
    """Of all of them together, in memory, in bytes per second."""
    cache_bytes: int


@dataclass(frozen=True, slots=True)
class HostRun:
    """A plan that ran on one host for so many bytes, and how long it took."""

    plan: Plan
    num_bytes: int
    seconds: float

    @property
    def footprint_bytes(self) -> float:
        """Of the buffers of all ranks."""
        inputs, outputs = self.plan.collective.stored_chunks()
        chunk = self.num_bytes / self.plan.collective.num_shares() / self.plan.share_chunks
        return float(inputs.sum() + outputs.sum()) * chunk

    def seconds_at(self, bandwidth: float, num_cores: int) -> float:
        """How long it takes where all cores together add and copy so fast; twice as fast takes half as long."""
        system = System(
            "one host",
            (Level("rank", self.plan.num_ranks, Link(NO_LIMIT, NO_LIMIT)),),
            compute=Compute(
                core_bandwidth=bandwidth / num_cores, host_core_bandwidth=bandwidth, host_cores=num_cores
            ),
        )
        return simulate(self.plan, system, self.num_bytes).seconds


@dataclass(frozen=True, slots=True)
class HostConstants:
    """What a runtime costs on one host."""

    memory_part: float
    """The part of the cores' rate that it gets in memory."""
    own_gain: float
    """How many times as much it gets where all buffers are in the caches, and every rank has a core of its own."""
    shared_gain: float
    """The same where ranks take turns on the cores."""
    call_seconds: float
    """Of every call, while a rank has a core to itself."""

    def predict(self, run: HostRun, cores: Cores) -> float:
        """Seconds of a run."""
        return self._predict(run, cores, run.seconds_at(cores.copy_bandwidth, cores.num_cores))

    def _predict(self, run: HostRun, cores: Cores, seconds_at_rate: float) -> float:
        turns = max(1.0, run.plan.num_ranks / cores.num_cores)
        gain = self.own_gain if turns == 1 else self.shared_gain
        part = self.memory_part * (gain if run.footprint_bytes <= cores.cache_bytes else 1.0)
        return self.call_seconds * turns + seconds_at_rate / part


START = (0.7, 3.0, 1.5, 10e-6)
LOWEST, HIGHEST = (0.05, 1.0, 0.5, 1e-9), (2.0, 20.0, 20.0, 1e-2)


def fit_host(runs: Sequence[HostRun], cores: Cores) -> HostConstants:
    """The constants under which runs take as long as was measured."""
    if len(runs) < LEAST_ROWS:
        raise FormatError(f"four constants need {LEAST_ROWS} measurements or more, and there are {len(runs)}")
    at_rate = [run.seconds_at(cores.copy_bandwidth, cores.num_cores) for run in runs]

    def errors(logs: Amounts) -> Amounts:
        constants = HostConstants(*np.exp(logs).tolist())
        return np.array(
            [
                math.log(constants._predict(run, cores, seconds) / run.seconds)
                for run, seconds in zip(runs, at_rate, strict=True)
            ]
        )

    # SciPy is imported when a fit begins: its import takes longer than all that other verbs do.
    from scipy.optimize import least_squares

    bounds = (np.log(LOWEST), np.log(HIGHEST))
    found = least_squares(errors, np.log(START), bounds=bounds, loss="soft_l1", f_scale=USUAL_ERROR)
    return HostConstants(*(float(f"{number:.4g}") for number in np.exp(found.x)))
