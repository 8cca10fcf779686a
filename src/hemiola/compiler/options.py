"""CompileOptions: what a compilation is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.errors import CompileError

MAX_SLOTS = 1 << 30


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
        if not 0 <= self.slots <= MAX_SLOTS:
            raise CompileError(f"slots is between 0 and {MAX_SLOTS}, but is {self.slots}")
        for limit in (self.max_threadblocks, self.max_threadblocks_per_channel):
            if limit is not None and limit < 1:
                raise CompileError(f"a limit of threadblocks is 1 or more, but is {limit}")
