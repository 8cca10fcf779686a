"""Usage: how busy the machine was, which decides whether the wire was measured or the processor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
IDLE = slice(3, 5)
"""Idle, and waiting for a disk."""
MOST_BUSY = 0.6
"""Above, a measurement says more about the processor than about the wire."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Ticks of all cores since the machine started."""

    total: int
    idle: int

    @staticmethod
    def now() -> Usage:
        """What the kernel counts."""
        ticks = [int(word) for word in STAT.read_text("ascii").split("\n", 1)[0].split()[1:9]]
        return Usage(sum(ticks), sum(ticks[IDLE]))

    def busy_since(self, earlier: Usage) -> float:
        """The part of all cores' time that was used since."""
        total = self.total - earlier.total
        return 1 - (self.idle - earlier.idle) / total if total > 0 else 0.0
