"""Calibrate: a system whose constants are those under which replays take as long as was measured on it.

Of the sizes of every plan each second one is fitted, the second, the fourth and so on, and the error is that of the others: of rows that
the constants have not seen. What is predicted is what every verb prints for the same plan on the fitted system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.calibrate.fit_replay import fit_replay
from hemiola.cost.calibrate.fitted_constant import FittedConstant, constants_for
from hemiola.cost.calibrate.measured_run import MeasuredRun
from hemiola.errors import FormatError
from hemiola.simulator.runtimes.by_name import runtime_named
from hemiola.topology.rescale import with_bandwidths, without_latency
from hemiola.topology.system import ProtocolCosts, System

LARGE_BYTES = 64 << 20
LEAST_ROWS = 4
SHORTEST_SECONDS, LONGEST_SECONDS = 1e-9, 1e6
UNKNOWN = ProtocolCosts(efficiency=0.9, step_seconds=1e-6, latency=1e-6)
"""Where a fit begins for a protocol of which the system says nothing."""
HEADROOM = 1.02
"""Links that were found faster than described are raised so far above what was measured."""


@dataclass(frozen=True)
class Calibration:
    """What a fit found, and how good it is."""

    system: System
    """As described, with the constants that were fitted."""
    constants: tuple[FittedConstant, ...]
    runs: tuple[MeasuredRun, ...]
    """By plan, collective, ranks and size."""
    fitted: npt.NDArray[np.bool_]
    """Which of them the constants were fitted to."""
    predicted: npt.NDArray[np.float64]
    """Seconds."""
    raised: float = 1.0
    """How many times the described bandwidth the links must have, for the fastest rows to be possible."""

    def mean_error(self, from_bytes: int = 0) -> float | None:
        """Of the rows that were not fitted, from a size on; a part of the measured time, None without such rows."""
        large = np.array([run.num_bytes >= from_bytes for run in self.runs])
        chosen = ~self.fitted & large
        return float(np.mean(self.errors[chosen])) if chosen.any() else None

    @property
    def errors(self) -> npt.NDArray[np.float64]:
        """Of every row, as a part of the measured time."""
        seconds = np.array([run.seconds for run in self.runs])
        found: npt.NDArray[np.float64] = np.abs(self.predicted / seconds - 1)
        return found

    def parameters(self) -> dict[str, float]:
        """What was fitted, by protocol and name."""
        return {
            f"{protocol} {field}": getattr(self.system.protocols[protocol], field)
            for constant in self.constants
            for protocol in constant.protocols
            for field in constant.fields
        }


def calibrate(
    runs: Sequence[MeasuredRun], system: System, progress: Callable[[int], None] = lambda replays: None
) -> Calibration:
    """Fit a system to measured runs."""
    known = sorted(
        (run for run in runs if run.num_bytes > 0 and SHORTEST_SECONDS < run.seconds < LONGEST_SECONDS),
        key=lambda run: (run.name, run.kind, run.num_ranks, run.num_bytes, run.in_place),
    )
    if len(known) < LEAST_ROWS:
        raise FormatError(f"a fit needs {LEAST_ROWS} measured times or more, and there are {len(known)}")
    started, raised = _raised(_with_protocols(system, known), known)
    constants = constants_of(known, started)
    fitted = _every_second_size(known)
    found = fit_replay(
        [run for run, chosen in zip(known, fitted, strict=True) if chosen], started, constants, progress
    )
    predicted = np.array([run.predict(found) for run in known])
    return Calibration(found, constants, tuple(known), fitted, predicted, raised)


def constants_of(runs: Sequence[MeasuredRun], system: System) -> tuple[FittedConstant, ...]:
    """The constants that a fit to these rows moves."""
    sizes: dict[str, list[float]] = {}
    interpreted: dict[str, None] = {}
    for run in runs:
        protocol = run.protocol(system)
        sizes.setdefault(protocol, []).append(run.num_bytes)
        if run.plan is not None and runtime_named(run.runtime or system.runtime).interprets:
            interpreted[protocol] = None
    return constants_for(len(runs), sizes, interpreted=tuple(interpreted), system=system)


def _every_second_size(runs: Sequence[MeasuredRun]) -> npt.NDArray[np.bool_]:
    """The second, the fourth and so on of the sizes of every plan and collective; in and out of place together."""
    sizes: dict[tuple[object, ...], list[int]] = {}
    for run in runs:
        seen = sizes.setdefault((run.name, run.kind, run.num_ranks), [])
        if run.num_bytes not in seen:
            seen.append(run.num_bytes)
    return np.array([sizes[run.name, run.kind, run.num_ranks].index(run.num_bytes) % 2 == 1 for run in runs])


def _with_protocols(system: System, runs: Sequence[MeasuredRun]) -> System:
    """The system with numbers for every protocol that ran."""
    protocols = dict(system.protocols)
    for run in runs:
        if (name := run.protocol(system)) not in protocols:
            protocols[name] = next(iter(system.protocols.values()), UNKNOWN)
    return replace(system, protocols=protocols)


def _raised(system: System, runs: Sequence[MeasuredRun]) -> tuple[System, float]:
    """Rows that are faster than the links could be raise them: their description is wrong there."""
    bare = without_latency(system)
    factor = 1.0
    for run in runs:
        request = run.request(bare)
        bound = lower_bound(request.collective, run.num_bytes, bare).seconds
        factor = max(factor, HEADROOM * bound / run.seconds if bound > run.seconds else 1.0)
    return (
        (system, 1.0)
        if factor == 1.0
        else (with_bandwidths(system, factor, range(len(system.levels))), factor)
    )
