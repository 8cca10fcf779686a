"""The choices that a script names: buffers and policies."""

from __future__ import annotations

from enum import Enum


class Buffer(Enum):
    """Where a chunk lies; any other hashable value names a scratch buffer."""

    input = "i"
    output = "o"
    scratch = "s"

    def __str__(self) -> str:
        return self.value


class ThreadblockPolicy(Enum):
    """Who places operations on threadblocks: the compiler, or ``sendtb`` and ``recvtb``."""

    auto = "auto"
    manual = "manual"

    def __str__(self) -> str:
        return self.value


class ReplicationPolicy(Enum):
    """How instances divide the chunks; taken, but every collective has one right way, and that is used."""

    duplicated = "duplicated"
    interleaved = "interleaved"
    packed = "packed"

    def __str__(self) -> str:
        return self.value
