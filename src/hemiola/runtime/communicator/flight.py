"""Flight: one call of a communicator, as its flight record lists it."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola import _core


@dataclass(frozen=True, slots=True)
class Flight:
    """One call of a communicator, as ``flight_record`` lists it."""

    number: int
    description: str
    begin: float
    """When the call began, in seconds of the monotonic clock."""
    seconds: float | None
    """How long the call took; None while it runs and when it failed."""

    @staticmethod
    def of(record: _core.CallRecord) -> Flight:
        """A record of the core, in seconds."""
        seconds = None if record.end is None else (record.end - record.begin) * 1e-9
        return Flight(record.call, record.description, record.begin * 1e-9, seconds)
