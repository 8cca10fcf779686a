"""Calibrate: a system whose bandwidths, latencies and protocols are those that were measured on it.

Every second row is fitted, the second, the fourth and so on, and the error is that of the others: of rows that the constants
have not seen. Steps are those of rings and of direct exchanges; wire times are lower bounds on the system without latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hemiola.collectives import Collective, CollectiveKind
from hemiola.cost.bounds.level_capacities import Distances
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.calibrate.fit import Constants, MeasuredRows, fit
from hemiola.errors import FormatError
from hemiola.topology.parse.nccl_tests import Measurement
from hemiola.topology.rescale import with_bandwidths, with_latencies, without_latency
from hemiola.topology.system import ProtocolCosts, System

LARGE_BYTES = 64 << 20
PROBE_BYTES = 1 << 30
SHORTEST_SECONDS, LONGEST_SECONDS = 1e-9, 1e6
LEAST_PART = 0.02
"""Of a row's time: with less of it on the wire, a row does not tell the bandwidth."""
MOST_GAIN = 16.0
"""How many times the described bandwidth can have been found."""
NAMES: Mapping[int, tuple[str, ...]] = {1: ("Simple",), 2: ("LL", "Simple"), 3: ("LL", "LL128", "Simple")}
"""How protocols are called, by their number: the quickest to start first, the best for large data last."""

STEPS: Mapping[str, Callable[[int], int]] = {
    "allreduce": lambda n: 2 * (n - 1),
    "allgather": lambda n: n - 1,
    "reducescatter": lambda n: n - 1,
    "broadcast": lambda n: n - 1,
    "reduce": lambda n: n - 1,
    "alltoall": lambda n: n - 1,
    "alltonext": lambda n: 1,
    "gather": lambda n: 1,
    "scatter": lambda n: 1,
    "sendrecv": lambda n: 1,
}
"""Messages that wait for each other, by collective and number of ranks."""


@dataclass(frozen=True)
class Calibration:
    """What a fit found, and how good it is."""

    system: System
    """As described, with what was measured."""
    constants: Constants
    measurements: tuple[Measurement, ...]
    """By collective, ranks and size."""
    fitted: npt.NDArray[np.bool_]
    """Which of them the constants were fitted to."""
    predicted: npt.NDArray[np.float64]
    """Seconds."""
    protocols: tuple[str, ...]
    """The protocol that is fastest in each row, by the fit."""
    below_bound: tuple[Measurement, ...]
    """MeasuredRows faster than the described system can be: its description is wrong there."""

    def mean_error(self, from_bytes: int = 0) -> float | None:
        """Of the rows that were not fitted, from a size on; a part of the measured time, None without such rows."""
        chosen = self._held_out(from_bytes)
        return float(np.mean(self._errors()[chosen])) if chosen.any() else None

    def _held_out(self, from_bytes: int) -> npt.NDArray[np.bool_]:
        large = np.array([one.num_bytes >= from_bytes for one in self.measurements])
        found: npt.NDArray[np.bool_] = ~self.fitted & large
        return found

    def _errors(self) -> npt.NDArray[np.float64]:
        seconds = np.array([one.seconds for one in self.measurements])
        found: npt.NDArray[np.float64] = np.abs(self.predicted / seconds - 1)
        return found

    def parameters(self) -> dict[str, float]:
        """What was fitted, by name; seconds, and parts of the described bandwidth."""
        names, found = NAMES[len(self.constants.step_seconds)], self.constants
        return {
            **({"launch_seconds": found.launch_seconds} if found.launch_seconds else {}),
            **{f"{name} step_seconds": one for name, one in zip(names, found.step_seconds, strict=True)},
            **{f"{name} efficiency": one for name, one in zip(names, found.efficiencies, strict=True)},
        }


def calibrate(measurements: Sequence[Measurement], system: System) -> Calibration:
    """Fit a system to measured times."""
    known = sorted(
        (_with_ranks(one, system) for one in measurements if one.num_bytes > 0 and _is_possible(one)),
        key=lambda one: (one.kind, one.num_ranks, one.num_bytes),
    )
    rows = rows_of(known, system)
    fitted = np.arange(len(known)) % 2 == 1
    constants = _with_known_bandwidths(fit(rows.take(fitted)), rows)
    names = NAMES[len(constants.step_seconds)]
    bare = np.array([_bound(one, system) for one in known])
    return Calibration(
        _calibrated(system, constants, known),
        constants,
        tuple(known),
        fitted,
        constants.predict(rows),
        tuple(names[number] for number in constants.chosen(rows)),
        tuple(one for one, bound in zip(known, bare, strict=True) if one.seconds < bound),
    )


def _is_possible(one: Measurement) -> bool:
    """Whether a time can have been measured at all."""
    return SHORTEST_SECONDS <= one.seconds <= LONGEST_SECONDS


def _with_known_bandwidths(constants: Constants, rows: MeasuredRows) -> Constants:
    """The same, with the described bandwidth where the rows say nothing about it: none is so large that it counts.

    A bandwidth far above the described is no better: then the rows are wrong, and their bound says so.
    """
    chosen, each = constants.chosen(rows), []
    for number, efficiency in enumerate(constants.efficiencies):
        wire = rows.wire_seconds[chosen == number] / efficiency
        part = wire / (constants.predict(rows)[chosen == number])
        is_known = part.size > 0 and float(part.max()) > LEAST_PART and efficiency <= MOST_GAIN
        each.append(efficiency if is_known else 1.0)
    return replace(constants, efficiencies=tuple(each))


def rows_of(measurements: Sequence[Measurement], system: System) -> MeasuredRows:
    """Steps and wire times of measured rows."""
    still = without_latency(system)
    slopes = {
        (kind, n): lower_bound(_collective(kind, n), PROBE_BYTES, still).seconds / PROBE_BYTES
        for kind, n in sorted({(one.kind, one.num_ranks or 0) for one in measurements})
    }
    return MeasuredRows(
        np.array([STEPS[one.kind](one.num_ranks or 0) for one in measurements], np.float64),
        np.array([slopes[one.kind, one.num_ranks or 0] * one.num_bytes for one in measurements]),
        np.array([one.seconds for one in measurements]),
    )


def _with_ranks(one: Measurement, system: System) -> Measurement:
    n = one.num_ranks or system.num_ranks
    if not 2 <= n <= system.num_ranks:
        raise FormatError(
            f"the measurements are of {n} ranks, and system {system.name!r} has {system.num_ranks} devices"
        )
    if one.kind not in STEPS:
        raise FormatError(f"measurements of {one.kind} cannot be fitted; {', '.join(STEPS)} can")
    return replace(one, num_ranks=n)


def _collective(kind: str, n: int) -> Collective:
    return Collective(CollectiveKind(kind), n, peer=n - 1)


def _bound(one: Measurement, system: System) -> float:
    return lower_bound(_collective(one.kind, one.num_ranks or 0), one.num_bytes, system).seconds


def _calibrated(system: System, constants: Constants, measurements: Sequence[Measurement]) -> System:
    """The system with latencies and protocols as fitted.

    The quickest protocol's step is all on the links, so that the farthest ranks are that far apart; the others' messages
    cost what they take longer. Where protocols get more than the links were said to have, these are raised.
    """
    deciding, best = _deciding_levels(system, measurements[-1]), max(1.0, *constants.efficiencies)
    if best > 1:
        system = with_bandwidths(system, _four_digits(best), deciding)
    n, quickest = measurements[-1].num_ranks or 0, _four_digits(min(constants.step_seconds))
    distance = Distances(system, system.devices[:n]).diameter()[0]
    if distance > 0:
        system = with_latencies(system, lambda seconds: _four_digits(seconds * quickest / distance))
    elif system.levels[deciding[0]].link is not None:
        system = with_latencies(system, lambda seconds: quickest / 2, deciding[:1])
    else:
        quickest = 0.0  # the edges of a mesh without latencies: how many a message crosses is not known
    names = NAMES[len(constants.step_seconds)]
    protocols = {
        name: ProtocolCosts(
            efficiency=_four_digits(efficiency / best), latency=_four_digits(max(0.0, step - quickest))
        )
        for name, efficiency, step in zip(names, constants.efficiencies, constants.step_seconds, strict=True)
    }
    # A runtime's first protocol is its default: that for large data.
    return replace(system, protocols=dict(reversed(protocols.items())))


def _four_digits(number: float) -> float:
    """As many as a measurement is worth."""
    return float(f"{number:.4g}")


def _deciding_levels(system: System, one: Measurement) -> list[int]:
    """The levels whose links decide the bound of a large collective."""
    collective, still = _collective(one.kind, one.num_ranks or 0), without_latency(system)
    before = lower_bound(collective, PROBE_BYTES, still).seconds
    found = [
        number
        for number in range(len(system.levels))
        if lower_bound(collective, PROBE_BYTES, with_bandwidths(still, 2.0, [number])).seconds < before
    ]
    return found or list(range(len(system.levels)))
