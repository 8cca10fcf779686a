"""TimeSource: where a number of seconds comes from; every printed time says it."""

from __future__ import annotations

from enum import StrEnum


class TimeSource(StrEnum):
    """The ways to know a time."""

    REPLAYED = "replayed"
    """The plan itself was replayed, with the constants of the system."""
    ESTIMATED = "estimated"
    """A closed form; its distance to the replay is in docs/cost.md."""
    MEASURED = "measured"
    """It was run."""
    BOUND = "bound"
    """No algorithm is faster."""
