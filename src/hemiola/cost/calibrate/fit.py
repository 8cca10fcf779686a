"""Fit: few constants of a machine from measured times, robustly.

The model of one collective call is what its runtime does: it chooses the fastest of a few protocols, and each takes

    launch + steps x step latency + wire time / efficiency

``steps`` are the messages that wait for each other and ``wire time`` the least time of the bytes on the described links;
both are known before. The constants are fitted to the logarithm of the times, so that a microsecond counts at small sizes
and a millisecond at large ones, with a soft loss, so that a few wrong rows do not matter. Several starts, one for each way
to give parts of the sizes to protocols, keep the fit out of poor corners. Of one, two or three protocols, as many are taken as the rows justify (Schwarz's criterion).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from hemiola.errors import FormatError

Amounts = npt.NDArray[np.float64]

NUM_PLACES = 6
"""Where the sizes are cut into those of different protocols, to begin with."""
LEAST = 1e-9
"""Of every constant, seconds or a part of the bandwidth; the most is its inverse."""
MOST_PROTOCOLS = 3
USUAL_ERROR = 0.05
"""Of the logarithm: rows that are further off count less than their square."""
FINEST_ERROR = 0.001
"""No measurement is so good that a better fit would say anything."""


@dataclass(frozen=True)
class MeasuredRows:
    """What is known of each measured row."""

    steps: Amounts
    wire_seconds: Amounts
    """Of its bytes on the links as described, without any latency."""
    seconds: Amounts

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> MeasuredRows:
        """Some of the rows."""
        return MeasuredRows(self.steps[which], self.wire_seconds[which], self.seconds[which])


@dataclass(frozen=True)
class Constants:
    """What a fit finds: at most seven numbers."""

    launch_seconds: float
    """Of every call; 0 where all rows have the same number of steps, which cannot tell it from them."""
    step_seconds: tuple[float, ...]
    """Of each protocol, the quickest to start first."""
    efficiencies: tuple[float, ...]
    """Of each protocol: the part of the described bandwidth that it gets; above 1, the links are better than described."""

    @property
    def num_parameters(self) -> int:
        """How many were fitted."""
        return 2 * len(self.step_seconds) + (self.launch_seconds > 0)

    def predict(self, rows: MeasuredRows) -> Amounts:
        """The seconds of every row."""
        seconds: Amounts = self.launch_seconds + self._each(rows).min(axis=0)
        return seconds

    def chosen(self, rows: MeasuredRows) -> npt.NDArray[np.intp]:
        """The protocol that is fastest in every row."""
        fastest: npt.NDArray[np.intp] = self._each(rows).argmin(axis=0)
        return fastest

    def _each(self, rows: MeasuredRows) -> Amounts:
        steps, efficiency = np.array(self.step_seconds)[:, None], np.array(self.efficiencies)[:, None]
        found: Amounts = steps * rows.steps + rows.wire_seconds / efficiency
        return found


def errors(constants: Constants, rows: MeasuredRows) -> Amounts:
    """How far each row is from its prediction, as a part of the measured time."""
    return np.abs(constants.predict(rows) / rows.seconds - 1)


def fit(rows: MeasuredRows) -> Constants:
    """The constants that explain the rows best, with as many protocols as the rows justify."""
    if len(rows) < 4:
        raise FormatError(f"a fit needs four rows of different sizes or more, and there are {len(rows)}")
    with_launch = len(set(rows.steps.tolist())) > 1
    found = [
        _fit(rows, number, with_launch)
        for number in range(1, MOST_PROTOCOLS + 1)
        if number == 1 or 2 * number + with_launch < len(rows)
    ]
    return min(found, key=lambda one: _criterion(one, rows))


def _criterion(constants: Constants, rows: MeasuredRows) -> float:
    """Schwarz's, on all but the worst sixth of the rows, which may be wrong themselves."""
    squares = np.sort(np.log(constants.predict(rows) / rows.seconds) ** 2)
    kept = squares[: len(rows) - len(rows) // 6]
    return len(kept) * math.log(float(kept.mean()) + FINEST_ERROR**2) + constants.num_parameters * math.log(
        len(kept)
    )


def _fit(rows: MeasuredRows, num_protocols: int, with_launch: bool) -> Constants:
    # SciPy is imported when a fit begins: its import takes longer than all that other verbs do.
    from scipy.optimize import least_squares

    found = [
        least_squares(
            lambda logs: np.log(_constants(logs, with_launch).predict(rows) / rows.seconds),
            start,
            bounds=(math.log(LEAST), -math.log(LEAST)),
            loss="soft_l1",
            f_scale=USUAL_ERROR,
            max_nfev=100,
        )
        for start in _starts(rows, num_protocols, with_launch)
    ]
    return _constants(min(found, key=lambda one: float(one.cost)).x, with_launch)


def _starts(rows: MeasuredRows, num_protocols: int, with_launch: bool) -> Iterator[Amounts]:
    """Each protocol fitted alone to its part of the sizes, for several ways to cut the sizes into parts."""
    order = np.argsort(rows.wire_seconds, kind="stable")
    places = np.unique(np.linspace(1, len(rows) - 1, NUM_PLACES).round().astype(int)).tolist()
    for cuts in combinations(places, num_protocols - 1):
        lines = [_line(rows, part) for part in np.split(order, cuts)]
        launch = [float(rows.seconds.min()) / 4] if with_launch else []
        numbers = [*launch, *(step for step, _ in lines), *(efficiency for _, efficiency in lines)]
        yield np.log(np.clip(numbers, 2 * LEAST, 0.5 / LEAST))


def _line(rows: MeasuredRows, part: npt.NDArray[np.intp]) -> tuple[float, float]:
    """Step latency and efficiency of some rows, by their relative errors; neither is negative."""
    from scipy.optimize import nnls

    one = rows.take(part)
    terms = np.stack([one.steps, one.wire_seconds], axis=1) / one.seconds[:, None]
    step, slowness = nnls(terms, np.ones(len(one)))[0]
    return float(step), 1 / max(float(slowness), LEAST)


def _constants(logs: Amounts, with_launch: bool) -> Constants:
    """The numbers that the fit moves, which are logarithms, in the order of their step latencies."""
    numbers = np.exp(logs)
    launch, rest = (float(numbers[0]), numbers[1:]) if with_launch else (0.0, numbers)
    steps, efficiencies = np.split(rest, 2)
    order = np.argsort(steps, kind="stable")
    return Constants(launch, tuple(steps[order].tolist()), tuple(efficiencies[order].tolist()))
