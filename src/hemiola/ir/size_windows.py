"""SizeWindow: sizes of a call that a runtime cuts alike, so that one run of the plan speaks for all of them.

A runtime cuts the counted bytes of a call into ``nchunksperloop`` chunks, and packs as many chunks of a step into a message as
its payload takes (`SlotRule`). The number of chunks in a message is all that a deadlock depends on beside the plan and the slots:

    rccl, Simple, 64 chunks: up to 32 MiB a message packs 4 chunks or more, from 32 MiB + 64 bytes on 3,
    from 42 MiB on 2, and from 64 MiB + 64 bytes on 1.

Sizes are those that nccl-tests and rccl-tests print: the larger of a rank's input and output. The least element has a byte, and a
runtime takes a file only where the elements divide by the chunks of a loop, so sizes are multiples of that many bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.collectives import Collective, CollectiveKind
from hemiola.ir.runtime_slots import SlotRule
from hemiola.ir.targets import chunks_per_loop

HEMIOLA, MSCCL, RCCL = "hemiola", "msccl", "rccl"
RUNTIMES = (RCCL, MSCCL, "nccl", HEMIOLA)
"""Those whose verdict can be asked for."""


@dataclass(frozen=True, slots=True)
class CountedBytes:
    """How a runtime counts and cuts the bytes of a call."""

    chunks: int
    """Of one loop: the counted bytes of a call are a multiple of it."""
    factor: int = 1
    """The size of a call, as tests print it, is so many times its counted bytes."""

    @staticmethod
    def of(collective: Collective, runtime: str) -> CountedBytes:
        """By the rules of a runtime; rccl counts one rank's share of a gather or a scatter."""
        shares = runtime == RCCL and collective.kind in (CollectiveKind.GATHER, CollectiveKind.SCATTER)
        loop = chunks_per_loop(collective, shares_of_all=runtime != RCCL)
        return CountedBytes(loop, collective.num_ranks if shares else 1)

    def size(self, chunk_bytes: int) -> int:
        """The size of a call whose chunks have so many bytes."""
        return chunk_bytes * self.chunks * self.factor

    def chunk_bytes(self, num_bytes: int) -> int:
        """The bytes of a chunk of a call of that size, rounded up."""
        return -(-num_bytes // (self.chunks * self.factor))


@dataclass(frozen=True, slots=True)
class SizeWindow:
    """All sizes with one packing."""

    packing: int
    """Chunks of a step that one message carries."""
    min_bytes: int
    """The least size that the runtime would run so."""
    max_bytes: int | None
    """The largest; None where there is no end."""

    def first_from(self, least: int, step: int) -> int | None:
        """The smallest size of the window from ``least`` on, in multiples of ``step``; None where all are smaller."""
        first = max(self.min_bytes, -(-least // step) * step)
        return first if self.max_bytes is None or first <= self.max_bytes else None


def size_windows(rule: SlotRule, counted: CountedBytes) -> tuple[SizeWindow, ...]:
    """The windows of a runtime's sizes, in ascending order; packings that no size has are left out."""
    windows = []
    for packing in range(rule.most_chunks, 0, -1):
        shortest = 1 if packing == rule.most_chunks else rule.largest_chunk(packing + 1) + 1
        longest = None if packing == 1 else rule.largest_chunk(packing)
        if longest is None or shortest <= longest:
            end = None if longest is None else counted.size(longest)
            windows.append(SizeWindow(packing, counted.size(shortest), end))
    return tuple(windows)
