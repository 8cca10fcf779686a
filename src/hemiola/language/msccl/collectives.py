"""The collectives that a script names, and the class from which it derives its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from hemiola import collectives as native
from hemiola.language.msccl.chunks import Chunk, origins
from hemiola.language.msccl.enums import Buffer

RankBuffers = dict[Buffer, list[Chunk | None]]


class Collective:
    """A collective by what its buffers hold before, and a check of what they hold after."""

    name = "custom"

    def __init__(self, num_ranks: int, chunk_factor: int, inplace: bool) -> None:
        self.num_ranks = num_ranks
        self.chunk_factor = chunk_factor
        self.inplace = inplace

    def init_buffers(self) -> Any:
        """Per rank the input and the output buffer as lists of Chunk, None where nothing lies."""

    def check(self, prog: Any) -> Any:
        """Whether ``prog.buffers`` hold at the end what they must."""

    def get_buffer_index(self, rank: int, buffer: Any, index: int) -> tuple[Any, int]:
        """The one name of a chunk's memory, where two names share it."""
        return buffer, index


class Standard(Collective, ABC):
    """A collective that Hemiola knows, too."""

    def __init__(
        self, num_ranks: int, chunk_factor: int, inplace: bool, create_all_chunks: bool = False
    ) -> None:
        super().__init__(num_ranks, chunk_factor, inplace)

    @abstractmethod
    def native(self) -> native.Collective:
        """The same collective in Hemiola."""

    @abstractmethod
    def first_chunk(self, rank: int, index: int) -> Chunk:
        """What lies in a rank's input before."""

    def init_buffers(self) -> Any:
        """Fresh buffers; in place, the window of a buffer is a list of its own with the same chunks."""
        return [self._init_rank(rank) for rank in range(self.num_ranks)]

    def _init_rank(self, rank: int) -> RankBuffers:
        known = self.native()
        held: list[Chunk | None] = [self.first_chunk(rank, i) for i in range(known.input_chunks(rank))]
        if not self.inplace:
            return {Buffer.input: held, Buffer.output: [None] * known.output_chunks(rank)}
        if self.get_buffer_index(rank, Buffer.input, 0)[0] is Buffer.input:
            return {Buffer.input: held, Buffer.output: held}
        output: list[Chunk | None] = [None] * known.output_chunks(rank)
        first = self.get_buffer_index(rank, Buffer.input, 0)[1]
        output[first : first + len(held)] = held
        return {Buffer.input: held, Buffer.output: output}

    def check(self, prog: Any) -> bool:
        """Whether every promised chunk holds what it must; says which one does not."""
        for (rank, where, index), contributions in self.native().meaning().promises():
            buffer = Buffer.input if where == native.Buffer.INPUT else Buffer.output
            wanted = sorted(contributions)
            found = prog.buffers[rank][buffer][index]
            if origins(found) != wanted:
                print(f"{buffer.name}[{index}] of rank {rank} must hold {wanted}, but holds {found}")
                return False
        return True


class AllReduce(Standard):
    """Everybody gets the sum."""

    name = "allreduce"

    def native(self) -> native.Collective:
        """The same collective in Hemiola."""
        return native.AllReduce(self.num_ranks, self.chunk_factor, in_place=bool(self.inplace))

    def first_chunk(self, rank: int, index: int) -> Chunk:
        """A contribution that goes to everybody, to the same index."""
        return Chunk(rank, index, -1, index)

    def get_buffer_index(self, rank: int, buffer: Any, index: int) -> tuple[Any, int]:
        """In place, the output is the input."""
        return (Buffer.input, index) if self.inplace and buffer is Buffer.output else (buffer, index)


class AllGather(Standard):
    """Everybody gets everybody's input."""

    name = "allgather"

    def native(self) -> native.Collective:
        """The same collective in Hemiola."""
        return native.AllGather(self.num_ranks, self.chunk_factor, in_place=bool(self.inplace))

    def first_chunk(self, rank: int, index: int) -> Chunk:
        """A contribution that goes to everybody, to the rank's share of the output."""
        return Chunk(rank, index, -1, rank * self.chunk_factor + index)

    def get_buffer_index(self, rank: int, buffer: Any, index: int) -> tuple[Any, int]:
        """In place, the input is the rank's share of the output."""
        if self.inplace and buffer is Buffer.input:
            return Buffer.output, rank * self.chunk_factor + index
        return buffer, index


class ReduceScatter(Standard):
    """Everybody gets its own share of the sum."""

    name = "reduce_scatter"

    def native(self) -> native.Collective:
        """The same collective in Hemiola."""
        return native.ReduceScatter(self.num_ranks, self.chunk_factor, in_place=bool(self.inplace))

    def first_chunk(self, rank: int, index: int) -> Chunk:
        """A contribution to one rank's share."""
        return Chunk(rank, index, index // self.chunk_factor, index % self.chunk_factor)

    def get_buffer_index(self, rank: int, buffer: Any, index: int) -> tuple[Any, int]:
        """In place, the output is the rank's share of the input."""
        if self.inplace and buffer is Buffer.output:
            return Buffer.input, rank * self.chunk_factor + index
        return buffer, index


class AllToAll(Standard):
    """Everybody gets its share of everybody's input."""

    name = "alltoall"

    def native(self) -> native.Collective:
        """The same collective in Hemiola."""
        return native.AllToAll(self.num_ranks, self.chunk_factor, in_place=bool(self.inplace))

    def first_chunk(self, rank: int, index: int) -> Chunk:
        """A contribution to one rank, to the sender's share of its output."""
        receiver, piece = divmod(index, self.chunk_factor)
        return Chunk(rank, index, receiver, rank * self.chunk_factor + piece)

    def get_buffer_index(self, rank: int, buffer: Any, index: int) -> tuple[Any, int]:
        """In place, the output is the input."""
        return (Buffer.input, index) if self.inplace and buffer is Buffer.output else (buffer, index)


STANDARD = (AllReduce, AllGather, ReduceScatter, AllToAll)
MEANING = ("init_buffers", "check", "get_buffer_index")


def as_standard(collective: Collective) -> Standard | None:
    """The collective, if it means what Hemiola's own of that name means; None if a script changed that."""
    for known in STANDARD:
        kind = type(collective)
        if isinstance(collective, known) and all(getattr(kind, m) is getattr(known, m) for m in MEANING):
            return collective
    return None
