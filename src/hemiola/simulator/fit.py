"""Fit: few constants of a machine from measured times, robustly.

The model of one collective call is what its runtime does: it chooses the fastest of a few protocols, and each takes

    launch + steps x step latency + wire time / efficiency

``steps`` are the messages that wait for each other and ``wire time`` the least time of the bytes on the described links;
both are known before. The constants are fitted to the logarithm of the times, so that a microsecond counts at small sizes
and a millisecond at large ones, with a soft loss, so that a few wrong rows do not matter. Several starts, always the same,
keep the fit out of poor corners. Of one, two or three protocols, as many are taken as the rows justify (Schwarz's criterion).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from hemiola.errors import FormatError

Amounts = npt.NDArray[np.float64]

NUM_STARTS = 24
MOST_PROTOCOLS = 3
USUAL_ERROR = 0.05
"""Of the logarithm: rows that are further off count less than their square."""
FINEST_ERROR = 0.001
"""No measurement is so good that a better fit would say anything."""


@dataclass(frozen=True)
class Rows:
    """What is known of each measured row."""

    steps: Amounts
    wire_seconds: Amounts
    """Of its bytes on the links as described, without any latency."""
    seconds: Amounts

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, which: npt.NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(self.steps[which], self.wire_seconds[which], self.seconds[which])


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

    def predict(self, rows: Rows) -> Amounts:
        """The seconds of every row."""
        seconds: Amounts = self.launch_seconds + self._each(rows).min(axis=0)
        return seconds

    def chosen(self, rows: Rows) -> npt.NDArray[np.intp]:
        """The protocol that is fastest in every row."""
        fastest: npt.NDArray[np.intp] = self._each(rows).argmin(axis=0)
        return fastest

    def _each(self, rows: Rows) -> Amounts:
        steps, efficiency = np.array(self.step_seconds)[:, None], np.array(self.efficiencies)[:, None]
        found: Amounts = steps * rows.steps + rows.wire_seconds / efficiency
        return found


def errors(constants: Constants, rows: Rows) -> Amounts:
    """How far each row is from its prediction, as a part of the measured time."""
    return np.abs(constants.predict(rows) / rows.seconds - 1)


def fit(rows: Rows) -> Constants:
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


def _criterion(constants: Constants, rows: Rows) -> float:
    """Schwarz's, on all but the worst sixth of the rows, which may be wrong themselves."""
    squares = np.sort(np.log(constants.predict(rows) / rows.seconds) ** 2)
    kept = squares[: len(rows) - len(rows) // 6]
    return len(kept) * math.log(float(kept.mean()) + FINEST_ERROR**2) + constants.num_parameters * math.log(
        len(kept)
    )


def _fit(rows: Rows, num_protocols: int, with_launch: bool) -> Constants:
    random = np.random.default_rng(0)
    best = None
    for _ in range(NUM_STARTS if num_protocols > 1 else 4):
        result = least_squares(
            lambda logs: np.log(_constants(logs, with_launch).predict(rows) / rows.seconds),
            _start(rows, num_protocols, with_launch, random),
            bounds=(-60.0, 20.0),
            loss="soft_l1",
            f_scale=USUAL_ERROR,
            max_nfev=200,
        )
        if best is None or result.cost < best.cost:
            best = result
    assert best is not None
    return _constants(best.x, with_launch)


def _start(rows: Rows, num_protocols: int, with_launch: bool, random: np.random.Generator) -> Amounts:
    """Step latencies from the quickest row on, efficiencies below the best row's."""
    quickest = math.log(float((rows.seconds / np.maximum(rows.steps, 1)).min()))
    best = math.log(float((rows.wire_seconds / rows.seconds).max()))
    steps = quickest + random.uniform(-0.5, 2.0, num_protocols)
    efficiencies = best - random.uniform(-0.1, 2.0, num_protocols)
    launch = [math.log(float(rows.seconds.min()) / 2)] if with_launch else []
    start: Amounts = np.clip(np.concatenate([launch, steps, efficiencies]), -59.0, 19.0)
    return start


def _constants(logs: Amounts, with_launch: bool) -> Constants:
    """The numbers that the fit moves, which are logarithms, in the order of their step latencies."""
    numbers = np.exp(logs)
    launch, rest = (float(numbers[0]), numbers[1:]) if with_launch else (0.0, numbers)
    steps, efficiencies = np.split(rest, 2)
    order = np.argsort(steps, kind="stable")
    return Constants(launch, tuple(steps[order].tolist()), tuple(efficiencies[order].tolist()))
