"""Trust: how far a predicted step may be from a measured one, and whether a gain is larger than that.

Both sides of a comparison are predicted with the same constants, so an error of a constant is on both sides. The gain is therefore computed
with every constant at both ends of its band, on both sides at once, and what two sides do not share is added. A gain is clear where all of that is above zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any

from hemiola.planner.step_time import JobStepTime

COMPUTE_BAND = 0.15
"""Of a roofline: rows that were not fitted are within 4 % on H100 (benchmarks/training_steps.py), other devices were not compared."""
COMMUNICATION_BAND = 0.25
"""Of presets that no measurement corrected: within 32 % on average from 1 MiB on (benchmarks/gpu_accuracy.py)."""
UNSHARED_BAND = 0.03
"""Of a gain: what the prediction of one side has wrong and the other has not. The steps of 128 devices are 2 to 4 % slower against their prediction
than those of 8 devices, with the same constants (benchmarks/training_steps.py)."""
LEAST_GAIN = 0.01
"""Gains below this are not worth a change."""


class GainVerdict(StrEnum):
    """Whether a change is worth it."""

    CLEAR = "clear"
    TOSS_UP = "toss-up"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Gain:
    """What is saved of a step, as a share of it."""

    share: float
    least: float
    most: float

    @property
    def verdict(self) -> GainVerdict:
        """Clear, a toss-up, or none."""
        if self.share < LEAST_GAIN:
            return GainVerdict.NONE
        return GainVerdict.CLEAR if self.least > 0 else GainVerdict.TOSS_UP

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {"share": self.share, "least": self.least, "most": self.most, "verdict": self.verdict}


def compare(before: JobStepTime, after: JobStepTime) -> Gain:
    """The gain of one step over another, errors that both share cancelled."""
    bands = [
        (1 + compute, 1 + communication)
        for compute, communication in product(
            (-COMPUTE_BAND, COMPUTE_BAND), (-COMMUNICATION_BAND, COMMUNICATION_BAND)
        )
    ]
    ends = [1 - after.scaled(*band) / before.scaled(*band) for band in bands]
    return Gain(1 - after.seconds / before.seconds, min(ends) - UNSHARED_BAND, max(ends) + UNSHARED_BAND)
