"""fit_replay: the constants of a system under which replays take as long as was measured.

The logarithm of predicted over measured is made small, with a soft loss: few wrong rows do not matter. What is fitted is what
every verb prints: the prediction of a row is the replay of its plan on the fitted system.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hemiola.cost.calibrate.fitted_constant import FittedConstant, applied
from hemiola.cost.calibrate.measured_run import MeasuredRun
from hemiola.topology.system import ProtocolCosts, System

Amounts = npt.NDArray[np.float64]
STAGES = ((0.3, 0.1), (0.05, 0.03), (0.02, 0.01))
"""Of a fit: errors beyond the first number count less and less, and numbers move by the second when slopes are looked for, since replays
have small jumps. A coarse stage finds the way, a fine one the place."""
FARTHEST = math.log(64.0)
"""How many times what a system says a constant may become, as a logarithm; a launch may become so many times 10 us more."""
MOST_EVALUATIONS = 30
"""Of each stage."""
HELD = 0.01
"""A number that the rows do not tell stays where it is: leaving it costs so much of the error at its scale."""
FEW_ROWS = 64
"""Up to so many, a fit begins at several places and takes longer over each."""
DIGITS = 4


def fit_replay(
    runs: Sequence[MeasuredRun],
    system: System,
    constants: Sequence[FittedConstant],
    progress: Callable[[int], None] = lambda replays: None,
) -> System:
    """The system with its constants fitted to the runs."""
    known: dict[tuple[int, ProtocolCosts], float] = {}

    def predict(number: int, moved: System) -> float:
        """A row depends on the constants of its own protocol alone."""
        key = (number, moved.protocols[protocols[number]])
        if key not in known:
            known[key] = runs[number].predict(moved)
        return known[key]

    def errors(numbers: Amounts) -> Amounts:
        progress(len(known))
        moved = applied(system, constants, numbers.tolist())
        found = [math.log(predict(number, moved) / run.seconds) for number, run in enumerate(runs)]
        return np.array([*found, *(HELD * numbers)])

    # SciPy is imported when a fit begins: its import takes longer than all that other verbs do.
    from scipy.optimize import least_squares

    protocols = [run.protocol(system) for run in runs]
    lowest, highest = np.full(len(constants), -FARTHEST), np.full(len(constants), FARTHEST)
    highest[[one.is_added for one in constants]] = math.exp(FARTHEST)
    best: Any = None
    for start in _starts(constants, len(runs)):
        found = None
        for usual_error, step in STAGES if len(runs) <= FEW_ROWS else STAGES[:-1]:
            found = least_squares(
                errors,
                start if found is None else found.x,
                bounds=(lowest, highest),
                loss="soft_l1",
                f_scale=usual_error,
                diff_step=step,
                max_nfev=MOST_EVALUATIONS if len(runs) <= FEW_ROWS else MOST_EVALUATIONS // 3,
            )
        if best is None or (found is not None and found.cost < best.cost):
            best = found
    return rounded(applied(system, constants, best.x.tolist()))


def _starts(constants: Sequence[FittedConstant], num_rows: int) -> list[Amounts]:
    """Where fits begin: at what the system says, and with few rows also where links carry less, or synchronising takes longer.

    A constant that is hidden behind another one at the start has no slope there.
    """
    zeros = np.zeros(len(constants))
    if num_rows > FEW_ROWS:
        return [zeros]
    less = np.array([-1.0 if one.fields == ("efficiency",) else 0.0 for one in constants])
    longer = np.array([1.0 if "latency" in one.fields else 0.0 for one in constants])
    return [zeros, less, longer, less + longer]


def rounded(system: System) -> System:
    """Constants with as many digits as mean something, so that a file says all of them."""
    from dataclasses import fields, replace

    protocols = {
        name: replace(
            costs,
            **{field.name: float(f"{getattr(costs, field.name):.{DIGITS}g}") for field in fields(costs)},
        )
        for name, costs in system.protocols.items()
    }
    return replace(system, protocols=protocols)
