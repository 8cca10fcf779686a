"""Program: the recorder of a chunk program. A program is ordinary Python that calls its verbs.

    def ring(*, ranks: int = 4) -> Program:
        p = Program("ring", AllReduce(ranks, chunks=ranks, in_place=True))
        for start in range(ranks):
            c = p.chunk(start, "input", start)
            for hop in range(1, ranks):
                c = p.chunk((start + hop) % ranks, "input", start).reduce(c)
            for hop in range(ranks, 2 * ranks - 1):
                c = c.copy((start + hop) % ranks)
        return p

Nothing is global: programs nest, and several threads may each record their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

from hemiola import _core
from hemiola.collectives import Buffer, Collective
from hemiola.errors import ChunkIndexError, ProgramError
from hemiola.ir.chunk_dag import AUTOMATIC, OPERATION, ChunkDag
from hemiola.ir.plan import Protocol, Rows, is_plain_text
from hemiola.ir.rows import as_bytes, from_bytes, meaning_view
from hemiola.language.chunk import Chunk
from hemiola.language.faults import explain_fault, explain_postcondition

INPUT, OUTPUT = "input", "output"
MAX_PARALLEL = 1024
MAX_BUFFERS = 60_000
MAX_BY_HAND = 1 << 16
ALL_AUTOMATIC = (AUTOMATIC, AUTOMATIC, AUTOMATIC)
_BEFORE_PACKAGE = f"{Path(__file__).parents[2]}{os.sep}"
"""Left out of the lines of our own algorithms, so that a plan is the same on every machine."""


class Program:
    """Records what a chunk program does; ``finish`` gives it as a ChunkDag."""

    def __init__(
        self,
        name: str,
        collective: Collective,
        *,
        instances: int = 1,
        protocol: Protocol = Protocol.SIMPLE,
        min_bytes: int = 0,
        max_bytes: int = 0,
    ) -> None:
        _check_header(name, instances, min_bytes, max_bytes)
        self.name = name
        self.collective = collective
        self.instances = instances
        self.protocol = protocol
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self._parallel = instances
        self._channel = AUTOMATIC
        self._buffers = {INPUT: int(Buffer.INPUT), OUTPUT: int(Buffer.OUTPUT)}
        self._line_ids: dict[tuple[str, int], int] = {}
        self._instructions: dict[tuple[int, int], tuple[int, CodeType]] = {}
        meaning = collective.meaning()
        alias = collective.alias()
        inputs, outputs = collective.named_chunks()
        self._trace = _core.Trace(
            inputs.astype(np.uint32),
            outputs.astype(np.uint32),
            int(alias.source) if alias else 0,
            int(alias.target) if alias else 0,
            (alias.offset if alias else np.full(collective.num_ranks, -1)).astype(np.int32),
            as_bytes(meaning.held),
        )

    @property
    def num_ranks(self) -> int:
        """How many ranks take part."""
        return self.collective.num_ranks

    @property
    def buffers(self) -> list[str]:
        """The names of the buffers so far: input, output, and scratch buffers in the order of first use."""
        return list(self._buffers)

    @property
    def lines(self) -> tuple[str, ...]:
        """The user's lines seen so far, "file.py:12"; line id ``k`` is ``lines[k - 1]``."""
        return tuple(f"{file.removeprefix(_BEFORE_PACKAGE)}:{line}" for file, line in self._line_ids)

    def chunk(self, rank: int, buffer: str = INPUT, index: int = 0, count: int = 1) -> Chunk:
        """A reference to ``count`` chunks from ``index`` on, as they are now."""
        try:
            stamp = self._trace.chunk(rank, self.buffer_number(buffer), index, count)
        except TypeError:
            raise _not_whole(rank=rank, index=index, count=count) from None
        if stamp < 0:
            raise explain_fault(self, stamp, f"{buffer}[{index}] of rank {rank}", count)
        return Chunk(self, rank, buffer, index, count, stamp)

    @contextmanager
    def parallelize(self, instances: int) -> Iterator[None]:
        """Operations inside are cut into ``instances`` parts, each on a channel of its own; blocks nest."""
        if type(instances) is not int or not 1 <= instances * self._parallel <= MAX_PARALLEL:
            raise ProgramError(
                f"parallelize({instances}) inside {self._parallel} instances gives "
                f"{instances * self._parallel}; between 1 and {MAX_PARALLEL} are possible"
            )
        before = self._parallel
        self._parallel = before * instances
        try:
            yield
        finally:
            self._parallel = before

    @contextmanager
    def channel(self, ch: int) -> Iterator[None]:
        """Operations inside go by channel ``ch``, unless they say otherwise; the innermost block counts.

        Parts of a program on channels of their own have threadblocks of their own: while one part waits for its
        data, the others go on with another tile.
        """
        if type(ch) is not int:
            raise _not_whole(ch=ch)
        self._check_by_hand((ch, AUTOMATIC, AUTOMATIC))
        before, self._channel = self._channel, ch
        try:
            yield
        finally:
            self._channel = before

    def finish(self, *, check: bool = True) -> ChunkDag:
        """The program as a ChunkDag, after checking that it achieves its collective."""
        if check:
            self.check()
        scratch, operations = self._trace.finish()
        return ChunkDag(
            name=self.name,
            collective=self.collective,
            protocol=self.protocol,
            operations=from_bytes(operations, OPERATION),
            scratch_chunks=scratch,
            lines=self.lines,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
        )

    def check(self) -> None:
        """Raise unless every promised chunk holds exactly what the collective promises."""
        meaning = self.collective.meaning()
        broken = self._trace.broken_promises(meaning_view(meaning))
        if broken:
            raise explain_postcondition(self, meaning, broken[0])

    def next_scratch_index(self, rank: int, buffer: str) -> int:
        """Where a scratch buffer of ``rank`` ends so far."""
        if buffer in (INPUT, OUTPUT):
            raise ChunkIndexError(
                f"a copy to {buffer} of rank {rank} needs an index; only a scratch buffer is appended to"
            )
        return self._trace.size(rank, self.buffer_number(buffer))

    def record(
        self,
        kind: int,
        source: Chunk,
        rank: int,
        buffer: str,
        index: int,
        dst_stamp: int,
        by_hand: tuple[int, int, int],
        frame: FrameType,
    ) -> int:
        """Record one operation; the stamp of what it wrote."""
        if self._channel != AUTOMATIC and by_hand[0] == AUTOMATIC:
            by_hand = (self._channel, *by_hand[1:])
        if by_hand != ALL_AUTOMATIC:
            self._check_by_hand(by_hand)
        line = self._line_number(frame)
        try:
            stamp = self._trace.record(
                kind, source.rank, self._buffers[source.buffer], source.index, source.stamp,
                rank, self.buffer_number(buffer), index, dst_stamp, source.count, *by_hand, self._parallel, line,
            )  # fmt: skip
        except TypeError:
            raise _not_whole(rank=rank, index=index, by_hand=by_hand) from None
        if stamp < 0:
            raise explain_fault(self, stamp, f"{buffer}[{index}] of rank {rank}", source.count, source)
        return stamp

    def record_moves(self, moves: Rows) -> None:
        """Record the rows of a table one after another, as ``copy`` and ``reduce`` of new references would."""
        moves = np.ravel(moves)
        if self._channel != AUTOMATIC:
            self._check_by_hand((self._channel, AUTOMATIC, AUTOMATIC))
        for name in ("src_buffer", "dst_buffer"):
            assert moves.size == 0 or 0 <= moves[name].min() <= moves[name].max() < len(self._buffers), name
        line = self._line_number(sys._getframe(1))
        done, fault = self._trace.record_moves(as_bytes(moves), self._channel, self._parallel, line)
        if fault < 0:
            raise self._explain_move(fault, *moves[done].tolist())

    def _explain_move(self, code: int, _: int, *places_and_count: int) -> ProgramError:
        """The error for a row of a table that the trace refused."""
        *places, count = places_and_count
        source, target = (
            Chunk(self, rank, self.buffers[buffer], index, count, 0)
            for rank, buffer, index in (places[:3], places[3:])
        )
        fault = self.last_fault
        wrong = source if [fault.rank, fault.buffer, fault.index] == places[:3] else target
        return explain_fault(self, code, f"{wrong.buffer}[{wrong.index}] of rank {wrong.rank}", count, source)

    def _line_number(self, frame: FrameType) -> int:
        """The number of the line that a frame is at.

        Finding the line of an instruction is slow, so it is done once for each; the code is kept, so that no other
        one gets its address.
        """
        code = frame.f_code
        key = (id(code), frame.f_lasti)
        known = self._instructions.get(key)
        if known is None:
            line = self._line_ids.setdefault((code.co_filename, frame.f_lineno), len(self._line_ids) + 1)
            known = self._instructions[key] = (line, code)
        return known[0]

    def _check_by_hand(self, by_hand: tuple[int, int, int]) -> None:
        end = MAX_BY_HAND // self._parallel
        for name, number in zip(("ch", "sendtb", "recvtb"), by_hand, strict=True):
            if number != AUTOMATIC and not 0 <= number < end:
                raise ProgramError(
                    f"{name} is {number}, but with {self._parallel} instances it is from 0 to {end - 1}; "
                    "leave it out to let the compiler choose"
                )

    def check_fresh(self, chunk: Chunk) -> None:
        """Raise if ``chunk`` has been overwritten since the reference was taken."""
        fault = self._trace.check_fresh(
            chunk.rank, self._buffers[chunk.buffer], chunk.index, chunk.count, chunk.stamp
        )
        if fault < 0:
            raise explain_fault(self, fault, repr(chunk), chunk.count)

    def contributions(self, rank: int, buffer: str, index: int) -> list[tuple[int, int]] | None:
        """(rank, input index) of everything summed in a chunk now; None where nothing was written."""
        return self._trace.contributions(rank, self.buffer_number(buffer), index)

    @property
    def last_fault(self) -> _core.Fault:
        """What the trace refused last."""
        return self._trace.fault

    def buffer_number(self, name: str) -> int:
        """The number of a buffer in tables; a new name is a new scratch buffer."""
        known = self._buffers.get(name)
        if known is None:
            if not name or len(self._buffers) >= MAX_BUFFERS:
                raise ChunkIndexError(
                    f"{name!r} cannot be one more scratch buffer: a name is not empty, and a program has at "
                    f"most {MAX_BUFFERS} buffers; use indices of one buffer instead of many names"
                )
            known = self._buffers[name] = len(self._buffers)
        return known


def _check_header(name: str, instances: int, min_bytes: int, max_bytes: int) -> None:
    if not is_plain_text(name):
        raise ProgramError(f"{name!r} is no name for a program; use printable characters")
    if type(instances) is not int or not 1 <= instances <= MAX_PARALLEL:
        raise ProgramError(f"instances is between 1 and {MAX_PARALLEL}, but is {instances}")
    if min_bytes < 0 or max_bytes < 0:
        raise ProgramError(f"min_bytes and max_bytes are 0 or more, but are {min_bytes} and {max_bytes}")


def _not_whole(**values: object) -> ChunkIndexError:
    said = ", ".join(f"{name} is {value!r}" for name, value in values.items())
    return ChunkIndexError(f"ranks, indices, counts and channels are whole numbers below 2^31, but {said}")
