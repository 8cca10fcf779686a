"""Usage: how busy the cores were during a measurement, which tells whether the network or the processor was the limit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
IDLE = slice(3, 5)
"""The columns of ticks in which a core was idle or waited for a disk."""
MOST_BUSY = 0.6
"""Above this fraction a measurement says more about the processor than about the network."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The ticks of all cores since the machine started."""

    total: int
    idle: int

    @staticmethod
    def now() -> Usage:
        """Read the counters of the kernel."""
        ticks = [int(word) for word in STAT.read_text("ascii").split("\n", 1)[0].split()[1:9]]
        return Usage(sum(ticks), sum(ticks[IDLE]))

    def busy_since(self, earlier: Usage) -> float:
        """The fraction of all cores' time that was used since an earlier reading."""
        total = self.total - earlier.total
        return 1 - (self.idle - earlier.idle) / total if total > 0 else 0.0
