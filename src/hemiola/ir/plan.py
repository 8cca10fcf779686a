"""Plan: what every rank does, step by step; the value that is proven, timed, run and written to files.

A plan is four tables. Rows of ``threadblocks`` are grouped by rank, rows of ``steps`` by threadblock, and
rows of ``dependencies`` by step; each row names the first of its children, and the next row's first is its
end. C++ reads the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.collectives import Collective

Rows = npt.NDArray[np.void]

NO_PEER = _core.NO_PEER
"""In ``send_peer`` and ``recv_peer``: this threadblock has no such connection."""
NO_LINE = 0
"""In ``line``: the line of the user's program is not known; otherwise ``lines[line - 1]``."""

RANK = np.dtype(_core.layout("Rank"))
"""A row per rank: chunks of each buffer in memory (in place, the aliased buffer has 0)."""

THREADBLOCK = np.dtype(_core.layout("Threadblock"))
"""A sequential worker of a rank, with at most one peer to send to and one to receive from."""

STEP = np.dtype(_core.layout("Step"))
"""One instruction on ``count`` neighbouring chunks; fields that the opcode does not use are 0."""

DEPENDENCY = np.dtype(_core.layout("Dependency"))
"""Wait until that threadblock of the same rank (numbered within the rank) has finished that step of its own."""


class Protocol(Enum):
    """How a connection moves bytes; the value is the name in files."""

    SIMPLE = "Simple"
    LL = "LL"
    LL128 = "LL128"

    @property
    def slots(self) -> int:
        """How many chunks a connection holds before its sender blocks."""
        return 2 if self is Protocol.SIMPLE else 8


@dataclass(frozen=True, slots=True)
class Plan:
    """What every rank does, step by step."""

    name: str
    collective: Collective
    """Its meaning, including whether this plan is for in-place or out-of-place calls."""
    protocol: Protocol
    ranks: Rows
    threadblocks: Rows
    steps: Rows
    dependencies: Rows
    lines: tuple[str, ...] = field(default=(), repr=False)
    """Lines of the user's program, "file.py:12"."""
    min_bytes: int = 0
    max_bytes: int = 0
    """Sizes of a rank's data for which the plan is meant; a max of 0 is no upper end."""
    message_bytes: int = 0
    """The size of messages with which the plan was found to be fastest; 0: as the runtime chooses."""
    both_places: bool = False
    """The same steps serve in-place and out-of-place calls, and are proven for both."""

    @property
    def num_ranks(self) -> int:
        """How many ranks take part."""
        return len(self.ranks)

    @property
    def share_chunks(self) -> int:
        """Chunks of one share, which is what a rank contributes to another; of a custom collective every chunk is one."""
        return 1 if self.collective.custom is not None else self.collective.chunks

    @property
    def num_steps(self) -> int:
        """Steps of all threadblocks of all ranks."""
        return len(self.steps)

    @property
    def num_channels(self) -> int:
        """One more than the highest channel in use."""
        return int(self.threadblocks["channel"].max()) + 1 if len(self.threadblocks) else 0

    def threadblocks_of(self, rank: int) -> range:
        """Rows of ``threadblocks`` that belong to ``rank``."""
        return _children(self.ranks["first_threadblock"], rank, len(self.threadblocks))

    def steps_of(self, threadblock: int) -> range:
        """Rows of ``steps`` that belong to a row of ``threadblocks``."""
        return _children(self.threadblocks["first_step"], threadblock, len(self.steps))

    def dependencies_of(self, step: int) -> range:
        """Rows of ``dependencies`` that belong to a row of ``steps``."""
        return _children(self.steps["first_dependency"], step, len(self.dependencies))

    def line_of(self, step: int) -> str | None:
        """The user's line that a row of ``steps`` comes from, where it is known."""
        line = int(self.steps["line"][step])
        return None if line == NO_LINE else self.lines[line - 1]

    def for_place(self, *, in_place: bool) -> Plan:
        """The same steps, judged for in-place or for out-of-place calls."""
        return replace(self, collective=self.collective.with_place(in_place=in_place), both_places=False)


def is_plain_text(name: str) -> bool:
    """Whether a name can be printed on one line and stored anywhere."""
    return name.isprintable() and not any("\ud800" <= letter <= "\udfff" for letter in name)


def _children(firsts: npt.NDArray[np.uint32], row: int, total: int) -> range:
    end = int(firsts[row + 1]) if row + 1 < len(firsts) else total
    return range(int(firsts[row]), end)
