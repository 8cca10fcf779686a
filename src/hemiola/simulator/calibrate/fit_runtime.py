"""fit_runtime: what our own runtime costs beside the bytes on the wire, from plans that were run for real.

Five numbers are fitted so that the replay of every plan takes as long as it was measured, to the logarithm of the times
and with a soft loss: few wrong rows do not matter. They are frozen then, and serve other systems of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hemiola.errors import FormatError
from hemiola.simulator.replay import simulate_together
from hemiola.simulator.timeline import Load
from hemiola.topology.rescale import with_bandwidths, with_latencies
from hemiola.topology.system import ProtocolCosts, System

Amounts = npt.NDArray[np.float64]
USUAL_ERROR = 0.05
LEAST_ROWS = 6
PROTOCOL = "Simple"


@dataclass(frozen=True, slots=True)
class Observation:
    """Plans that ran at once on a system as it is described, and how long they took."""

    system: System
    loads: tuple[Load, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class RuntimeConstants:
    """What a runtime costs on hosts of one kind."""

    efficiency: float
    """The part of a link between hosts that data gets: headers, acknowledgements."""
    latency: float
    """Seconds that each link between hosts takes beside its described latency."""
    memory_bandwidth: float
    """Bytes per second of a rank's way to another on its host."""
    step_seconds: float
    """Of every message."""
    call_seconds: float
    """Of every call."""

    def apply(self, system: System) -> System:
        """The system as this runtime finds it."""
        between = range(system.host_depth)
        inside = range(system.host_depth, len(system.levels))
        changed = with_bandwidths(system, self.efficiency, between)
        changed = with_latencies(changed, lambda seconds: seconds + self.latency, between)
        levels = tuple(
            replace(
                level,
                link=replace(
                    level.link, bandwidth_out=self.memory_bandwidth, bandwidth_in=self.memory_bandwidth
                ),
            )
            if number in inside and level.link is not None
            else level
            for number, level in enumerate(changed.levels)
        )
        return replace(
            changed, levels=levels, protocols={PROTOCOL: ProtocolCosts(step_seconds=self.step_seconds)}
        )

    def predict(self, loads: Sequence[Load], system: System) -> float:
        """Seconds that plans take which begin at once."""
        return self.call_seconds + simulate_together(loads, self.apply(system)).seconds


START = RuntimeConstants(0.97, 50e-6, 2e9, 20e-6, 100e-6)
LOWEST = RuntimeConstants(0.5, 1e-7, 1e8, 1e-7, 1e-7)
HIGHEST = RuntimeConstants(1.0, 5e-3, 1e11, 2e-3, 1e-2)


def fit_runtime(observations: Sequence[Observation]) -> RuntimeConstants:
    """The constants under which replays take as long as was measured."""
    if len(observations) < LEAST_ROWS:
        raise FormatError(
            f"five constants need {LEAST_ROWS} measurements or more, and there are {len(observations)}"
        )

    def errors(logs: Amounts) -> Amounts:
        constants = RuntimeConstants(*np.exp(logs))
        return np.array(
            [math.log(constants.predict(one.loads, one.system) / one.seconds) for one in observations]
        )

    # SciPy is imported when a fit begins: its import takes longer than all that other verbs do.
    from scipy.optimize import least_squares

    found = least_squares(
        errors,
        _logs(START),
        bounds=(_logs(LOWEST), _logs(HIGHEST) + 1e-12),
        loss="soft_l1",
        f_scale=USUAL_ERROR,
        diff_step=1e-3,
        max_nfev=60,
    )
    return RuntimeConstants(*(float(f"{number:.4g}") for number in np.exp(found.x)))


def _logs(constants: RuntimeConstants) -> Amounts:
    return np.log(
        [
            constants.efficiency,
            constants.latency,
            constants.memory_bandwidth,
            constants.step_seconds,
            constants.call_seconds,
        ]
    )
