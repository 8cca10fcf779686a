"""JobPlan: the whole question, answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.matrix import Numbers
from hemiola.placement.place import PlacementResult
from hemiola.planner.collective_choice import CollectiveChoice
from hemiola.planner.degrees import Degrees
from hemiola.planner.job import Job
from hemiola.planner.score_degrees import DegreesScore
from hemiola.planner.trust import COMMUNICATION_BAND, COMPUTE_BAND, LEAST_GAIN, Gain

VERSION = 1
"""Of the schema of job_plan.json."""


@dataclass(frozen=True)
class DegreesResult:
    """Which degrees, of a job that has a model."""

    yours: DegreesScore | None
    """What the user runs today; None where the job does not say it."""
    ranked: tuple[DegreesScore, ...]
    """All that were looked at, fastest first."""
    num_too_large: int
    chosen: DegreesScore
    """Yours, unless another is clearly faster."""
    gain: Gain | None
    """Of the fastest over yours in the framework's order; None without yours."""
    yours_fits: bool = True
    """Whether the memory of a device is enough for what the user runs today."""

    def to_json(self, top: int = 20) -> dict[str, Any]:
        """For machines: the first ones."""
        return {
            "yours": None if self.yours is None else self.yours.to_json(),
            "yours_fits": self.yours_fits,
            "chosen": self.chosen.to_json(),
            "gain": None if self.gain is None else self.gain.to_json(),
            "num_ranked": len(self.ranked),
            "num_too_large": self.num_too_large,
            "ranked": [score.to_json() for score in self.ranked[:top]],
        }


def applied_grid(placed: PlacementResult, is_applied: bool) -> Numbers:
    """The device at each coordinate: under the first placement where it is applied, otherwise under the best default."""
    best = placed.best_default
    return placed.first_grid() if is_applied or best is None else best.default.device_grid(placed.axes)


@dataclass(frozen=True)
class JobPlan:
    """Degrees, placement and collectives of a job, with what each gains."""

    job: Job
    degrees: DegreesResult | None
    """None where the job is plain traffic."""
    placement: PlacementResult
    placement_is_applied: bool
    """Whether the best placement is clearly faster than the framework's order; otherwise that order stays."""
    collectives: tuple[CollectiveChoice, ...] | None
    """None on systems with too many devices to replay."""
    exposed_seconds: float
    """Communication that nothing hides, with the vendor's collectives, under the placement that is applied; estimated."""
    vendor_seconds: float | None
    """The same, replayed; None where nothing was replayed."""
    chosen_seconds: float | None
    """With the chosen collectives, replayed."""

    @property
    def saved_by_collectives(self) -> float:
        """Exposed seconds of a step that the chosen collectives save over the vendor's, as replayed."""
        return (self.vendor_seconds or 0.0) - (self.chosen_seconds or 0.0)

    @property
    def applied_collectives(self) -> tuple[CollectiveChoice, ...]:
        """Those that are faster than the vendor's, where that shortens the exposed communication enough to be worth a change."""
        if not self.vendor_seconds or self.saved_by_collectives < LEAST_GAIN * self.vendor_seconds:
            return ()
        return tuple(choice for choice in self.collectives or () if not choice.keeps_vendor)

    @property
    def applied(self) -> AppliedPlacement:
        """The placement that is applied."""
        return self.placement.applied_grid(applied_grid(self.placement, self.placement_is_applied))

    @property
    def chosen_degrees(self) -> Degrees | None:
        """Of a job that has a model."""
        return None if self.degrees is None else self.degrees.chosen.degrees

    def to_json(self) -> dict[str, Any]:
        """For machines; the file job_plan.json."""
        return {
            "version": VERSION,
            "job": self.job.name,
            "system": self.job.system.name,
            "num_devices": self.job.system.num_ranks,
            "trust": {"compute_band": COMPUTE_BAND, "communication_band": COMMUNICATION_BAND},
            "degrees": None if self.degrees is None else self.degrees.to_json(),
            "placement": self.placement.to_json(),
            "placement_is_applied": self.placement_is_applied,
            "applied": {
                "axes": {axis.name: axis.size for axis in self.applied.axes},
                "permutation": self.applied.permutation,
            },
            "level_counts": [level.count for level in self.job.system.levels],
            "collectives": None
            if self.collectives is None
            else [choice.to_json() for choice in self.collectives],
            "exposed": {
                "estimated_seconds": self.exposed_seconds,
                "vendor_seconds": self.vendor_seconds,
                "chosen_seconds": self.chosen_seconds,
            },
        }
