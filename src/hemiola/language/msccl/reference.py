"""Ref: a script's reference to neighbouring chunks."""

from __future__ import annotations

import sys
from operator import index as as_int
from types import FrameType
from typing import TYPE_CHECKING, Any

from hemiola.errors import ChunkIndexError, CountError, ProgramError
from hemiola.ir.chunk_dag import COPY, REDUCE
from hemiola.language.chunk import Chunk as NativeChunk
from hemiola.language.msccl.chunks import Chunk, ReduceChunk
from hemiola.language.msccl.enums import Buffer

if TYPE_CHECKING:
    from hemiola.language.msccl.program import MSCCLProgram

PACKAGE = __name__.rpartition(".")[0]
UNSET = -1
"""What a script writes for an index, a threadblock or a channel that it leaves to the compiler."""


class Ref:
    """``size`` neighbouring chunks; a reduction into it leaves it pointing at the sum."""

    __slots__ = ("_chunk", "buffer", "prog")

    def __init__(self, prog: MSCCLProgram, buffer: Any, chunk: NativeChunk) -> None:
        self.prog = prog
        self.buffer = buffer
        self._chunk = chunk

    @property
    def rank(self) -> int:
        """Where the chunks lie."""
        return self._chunk.rank

    @property
    def index(self) -> int:
        """The first chunk's place in its buffer."""
        return self._chunk.index

    @property
    def size(self) -> int:
        """How many chunks there are."""
        return self._chunk.count

    def copy(
        self, dst: int, buffer: Any = None, index: int = UNSET,
        sendtb: int = UNSET, recvtb: int = UNSET, ch: int = UNSET,
    ) -> Ref:  # fmt: skip
        """Copy to rank ``dst``: to the same place there, or to the end of a scratch buffer, without ``index``."""
        dst, index = as_int(dst), as_int(index)
        located, name, at = self._target(dst, buffer, index)
        by_hand = self.prog.by_hand(ch, sendtb, recvtb, local=dst == self.rank)
        native = self._chunk.program
        stamp = native.record(COPY, self._chunk, dst, name, at, self._chunk.stamp, by_hand, script_frame())
        self.prog.check_link(self.rank, dst)
        return Ref(self.prog, located, NativeChunk(native, dst, name, at, self.size, stamp))

    send = copy

    def _target(self, dst: int, buffer: Any, index: int) -> tuple[Any, str, int]:
        """Where a copy goes. An input named as destination is the place of the sender's input there.

        That matters in place, where the input is the rank's share of a larger output, and it is what scripts
        rely on: ``chunk(0, Buffer.input, 0).copy(1, Buffer.input, 0)`` hands rank 1 rank 0's share.
        """
        if buffer is None and index == UNSET:
            return self.buffer, self._chunk.buffer, self.index
        if buffer is None:
            buffer = self.buffer
        if buffer is not Buffer.input and buffer is not Buffer.output:
            return self.prog.scratch_place(dst, buffer, None if index == UNSET else index)
        if index == UNSET:
            raise ChunkIndexError(
                f"a copy to {buffer.name} of rank {dst} needs an index; only a scratch buffer is appended to"
            )
        self.prog.memory.check_rank(dst)
        owner = self.rank if buffer is Buffer.input else dst
        return self.prog.memory.place(owner, buffer, index, self.size)

    def reduce(self, other: Any, *options: Any, **named: Any) -> Ref:
        """Add ``other`` into this chunk, ``reduce(other, sendtb, recvtb, ch)``; this reference is then the sum.

        The older form ``reduce(rank, buffer, index, sendtb, recvtb, ch)`` adds this chunk into that one.
        """
        if isinstance(other, Ref):
            return self._add(other, *options, **named)
        return self._add_into(other, *options, **named)

    def _add(self, other: Ref, sendtb: int = UNSET, recvtb: int = UNSET, ch: int = UNSET) -> Ref:
        native, mine, theirs = self._chunk.program, self._chunk, other._chunk
        if theirs.program is not native:
            raise ProgramError(
                f"{theirs!r} belongs to another program than {mine!r}; take both from one program"
            )
        if theirs.count != mine.count:
            raise CountError(
                f"{mine!r} has {mine.count} chunks, but {theirs!r}, to be reduced into it, has {theirs.count}; "
                "split or group one of them so that the counts agree"
            )
        by_hand = self.prog.by_hand(ch, sendtb, recvtb, local=theirs.rank == mine.rank)
        stamp = native.record(
            REDUCE, theirs, mine.rank, mine.buffer, mine.index, mine.stamp, by_hand, script_frame()
        )
        self.prog.check_link(theirs.rank, mine.rank)
        self._chunk = NativeChunk(native, mine.rank, mine.buffer, mine.index, mine.count, stamp)
        return self

    def _add_into(
        self, dst: int, buffer: Any = None, index: int = UNSET,
        sendtb: int = UNSET, recvtb: int = UNSET, ch: int = UNSET,
    ) -> Ref:  # fmt: skip
        if buffer is None:
            buffer = self.buffer
        target = self.prog.reference(dst, buffer, self.index if index == UNSET else index, self.size)
        return target._add(self, sendtb, recvtb, ch)

    def split(self, num: int) -> list[Ref]:
        """``num`` references of equal size, in order."""
        return [Ref(self.prog, self.buffer, part) for part in self._chunk.split(as_int(num))]

    def group(self, other: Ref) -> Ref:
        """One reference to both, which must be neighbours."""
        return Ref(self.prog, self.buffer, self._chunk.group(other._chunk))

    def get_origin_index(self, index: int = 0) -> int:
        """Where in its input one of these chunks started."""
        return self._single(index).origin_index

    def get_origin_rank(self, index: int = 0) -> int:
        """At which rank one of these chunks started."""
        return self._single(index).origin_rank

    def get_dst_index(self, index: int = 0) -> int:
        """Where in the output one of these chunks is meant to go."""
        return self._single(index).dst_index

    def get_dst_rank(self, index: int = 0) -> int:
        """To which rank one of these chunks is meant to go."""
        return self._single(index).dst_rank

    def print_chunk_info(self, index: int = 0) -> None:
        """Print what one of these chunks holds."""
        print(self._content(index))

    def _content(self, index: int) -> Chunk | ReduceChunk | None:
        return self.prog.contents.at((self.rank, self._chunk.buffer, self.index + as_int(index)))

    def _single(self, index: int) -> Chunk:
        content = self._content(index)
        if not isinstance(content, Chunk):
            raise ProgramError(
                f"chunk {index} of {self._chunk!r} is {content}, which has no one origin and destination; "
                "ask before it is reduced"
            )
        return content

    def _key(self) -> tuple[object, ...]:
        return self.rank, self.buffer, self.index, self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and self.prog is other.prog and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Ref(Buffer:{self.buffer}, Index:{self.index}, Size:{self.size}, Rank:{self.rank})"


def script_frame() -> FrameType:
    """The innermost frame that is not of this dialect: the script's line."""
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__")).startswith(PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame
