"""CompileOptions: what a compilation is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.errors import CompileError


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """What a compilation is asked for."""

    slots: int = 2
    """The plan must not deadlock with this many slots per connection, nor with more; 0: a send ends only
    when it is received."""
    disabled: frozenset[str] = frozenset()
    """Names of passes to leave out."""
    max_threadblocks: int | None = None
    """Where a rank would need more, connections that only send and only receive share a threadblock."""
    max_threadblocks_per_channel: int | None = None
    """The same for one channel of a rank."""

    def __post_init__(self) -> None:
        if self.slots < 0:
            raise CompileError(f"slots is 0 or more, but is {self.slots}")
