"""Chunk: a reference to neighbouring chunks on one rank, as they are at one moment of the program."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hemiola.errors import CountError, GroupError, ProgramError
from hemiola.ir.chunk_dag import AUTOMATIC, COPY, REDUCE

if TYPE_CHECKING:
    from hemiola.language.program import Program


class Chunk:
    """``count`` neighbouring chunks of one buffer, valid until one of them is overwritten.

    References are made by ``Program.chunk`` and by the verbs here, and never change; a verb that writes
    returns a reference to what it wrote.
    """

    __slots__ = ("_stamp", "buffer", "count", "index", "program", "rank")

    def __init__(self, program: Program, rank: int, buffer: str, index: int, count: int, stamp: int) -> None:
        self.program = program
        self.rank = rank
        self.buffer = buffer
        self.index = index
        self.count = count
        self._stamp = stamp

    def copy(
        self,
        rank: int,
        buffer: str | None = None,
        index: int | None = None,
        *,
        ch: int = AUTOMATIC,
        sendtb: int = AUTOMATIC,
        recvtb: int = AUTOMATIC,
    ) -> Chunk:
        """Copy to ``rank``; the reference returned is the copy.

        Without ``buffer`` the copy goes to the same buffer and index there; a scratch buffer without
        ``index`` is appended to. ``ch`` fixes the channel, ``sendtb`` and ``recvtb`` the threadblocks.
        """
        program = self.program
        if buffer is None:
            buffer = self.buffer
            if index is None:
                index = self.index
        if index is None:
            index = program.next_scratch_index(rank, buffer)
        stamp = program.record(
            COPY, self, rank, buffer, index, self._stamp, (ch, sendtb, recvtb), sys._getframe(1)
        )
        return Chunk(program, rank, buffer, index, self.count, stamp)

    def reduce(
        self, other: Chunk, *, ch: int = AUTOMATIC, sendtb: int = AUTOMATIC, recvtb: int = AUTOMATIC
    ) -> Chunk:
        """Add ``other`` into this chunk; the reference returned is the sum, and this one is stale."""
        program = self.program
        if getattr(other, "program", None) is not program:
            raise ProgramError(
                f"{other!r} belongs to another program than {self!r}; take both from one program"
            )
        if other.count != self.count:
            raise CountError(
                f"{self!r} has {self.count} chunks, but {other!r}, to be reduced into it, has {other.count}; "
                "split or group one of them so that the counts agree"
            )
        stamp = program.record(
            REDUCE,
            other,
            self.rank,
            self.buffer,
            self.index,
            self._stamp,
            (ch, sendtb, recvtb),
            sys._getframe(1),
        )
        return Chunk(program, self.rank, self.buffer, self.index, self.count, stamp)

    def split(self, parts: int) -> list[Chunk]:
        """``parts`` references of equal count, in order."""
        if parts < 1 or self.count % parts:
            raise GroupError(
                f"{self!r} has {self.count} chunks, which cannot be split into {parts} equal parts; "
                f"use a divisor of {self.count}"
            )
        size = self.count // parts
        return [
            Chunk(self.program, self.rank, self.buffer, self.index + part * size, size, self._stamp)
            for part in range(parts)
        ]

    def group(self, other: Chunk) -> Chunk:
        """One reference to both; ``other`` must begin where this one ends, or end where it begins."""
        if getattr(other, "program", None) is not self.program or (other.rank, other.buffer) != (
            self.rank,
            self.buffer,
        ):
            raise GroupError(
                f"{self!r} and {other!r} are not in one buffer of one rank; copy one of them first"
            )
        first, second = (self, other) if self.index <= other.index else (other, self)
        end = first.index + first.count
        if end != second.index:
            what = (
                f"chunks {end} to {second.index - 1} between them belong to neither"
                if end < second.index
                else f"chunks {second.index} to {min(end, second.index + second.count) - 1} belong to both"
            )
            raise GroupError(
                f"{first!r} and {second!r} are not neighbours: {what}; group touching references"
            )
        self.program.check_fresh(first)
        self.program.check_fresh(second)
        stamp = max(first._stamp, second._stamp)
        return Chunk(self.program, self.rank, self.buffer, first.index, first.count + second.count, stamp)

    @property
    def stamp(self) -> int:
        """How many operations the program had recorded when this reference was taken."""
        return self._stamp

    def __repr__(self) -> str:
        end = f":{self.index + self.count}" if self.count > 1 else ""
        return f"{self.buffer}[{self.index}{end}] of rank {self.rank}"
