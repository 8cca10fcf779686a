"""The buffers of a running program as a script sees them: lists of Chunk, ReduceChunk and None."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from hemiola.language.msccl.chunks import Content, ReduceChunk
from hemiola.language.msccl.enums import Buffer
from hemiola.language.msccl.memory import Memory
from hemiola.language.program import Program

Place = tuple[int, str, int]
"""(rank, native buffer, index)."""


class Contents:
    """What the chunks of a program hold now; remembers the places that were looked at."""

    def __init__(self, memory: Memory, program: Program, scratch_names: dict[Any, str]) -> None:
        self.memory = memory
        self.program = program
        self.scratch_names = scratch_names
        self.seen: set[Place] = set()

    def at(self, place: Place) -> Content:
        """The content of one chunk."""
        parts = self.origins(place)
        if not parts:
            return None
        chunks = [chunk for part in parts if (chunk := self.memory.first[part]) is not None]
        return chunks[0] if len(chunks) == 1 else ReduceChunk(place[0], chunks)

    def origins(self, place: Place) -> list[tuple[int, int]]:
        """(rank, native input index) of all that is summed in a chunk; empty where nothing was written."""
        parts = self.program.contributions(*place) or []
        return [] if len(parts) == 1 and parts[0] in self.memory.blank else parts

    def rank(self, rank: int) -> RankContents:
        """The buffers of one rank."""
        self.memory.check_rank(rank)
        return RankContents(self, rank)


class RankContents:
    """The buffers of one rank by name."""

    def __init__(self, contents: Contents, rank: int) -> None:
        self._contents = contents
        self._rank = rank

    def __contains__(self, buffer: object) -> bool:
        return buffer in (Buffer.input, Buffer.output) or buffer in self._contents.scratch_names

    def __getitem__(self, buffer: Any) -> Row:
        contents, rank = self._contents, self._rank
        if buffer is Buffer.input or buffer is Buffer.output:
            name: Buffer = buffer
            size = contents.memory.size(rank, name)
            return Row(contents, size, lambda index: (rank, *contents.memory.place(rank, name, index, 1)[1:]))
        scratch = contents.scratch_names[buffer]
        size = contents.program.next_scratch_index(rank, scratch)
        return Row(contents, size, lambda index: (rank, scratch, index))


class Row(Sequence[Content]):
    """One buffer, read like a list."""

    def __init__(self, contents: Contents, size: int, place: Callable[[int], Place]) -> None:
        self._contents = contents
        self._size = size
        self._place = place

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Content: ...
    @overload
    def __getitem__(self, index: slice) -> list[Content]: ...
    def __getitem__(self, index: int | slice) -> Content | list[Content]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(self._size))]
        place = self._place(range(self._size)[index])
        self._contents.seen.add(place)
        return self._contents.at(place)

    def __iter__(self) -> Iterator[Content]:
        return (self[index] for index in range(self._size))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
