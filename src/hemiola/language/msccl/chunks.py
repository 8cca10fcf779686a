"""Chunk and ReduceChunk: what a chunk holds, in the words of a script's own collectives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Chunk:
    """One contribution: where it started, and where it is meant to go (-1: no one place)."""

    origin_rank: int
    origin_index: int
    dst_rank: int = -1
    dst_index: int = -1

    def reduce(self, *operands: object) -> ReduceChunk:
        """The sum with the last operand; the rank that may stand before it does not matter."""
        return ReduceChunk(-1, [self]).reduce(*operands)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chunk) and origins(self) == origins(other)

    def __hash__(self) -> int:
        return hash((self.origin_rank, self.origin_index))

    def __lt__(self, other: Chunk) -> bool:
        return origins(self) < origins(other)


class ReduceChunk:
    """A sum of contributions; two are equal when they add up the same ones."""

    def __init__(self, creation_rank: int | list[Chunk], chunks: list[Chunk] | None = None) -> None:
        if isinstance(creation_rank, list):
            chunks, creation_rank = creation_rank, -1
        self.creation_rank = creation_rank
        self.chunks = [] if chunks is None else chunks

    def reduce(self, *operands: object) -> ReduceChunk:
        """The sum with the last operand; the rank that may stand before it does not matter."""
        other = operands[-1]
        if not isinstance(other, (Chunk, ReduceChunk)):
            raise TypeError(f"a chunk is reduced with a Chunk or a ReduceChunk, not with {other!r}")
        added = [other] if isinstance(other, Chunk) else other.chunks
        return ReduceChunk(self.creation_rank, self.chunks + added)

    def sort(self) -> None:
        """Put the contributions in order of origin."""
        self.chunks.sort()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceChunk) and origins(self) == origins(other)

    def __hash__(self) -> int:
        return hash(tuple(origins(self)))

    def __repr__(self) -> str:
        return f"ReduceChunk({self.creation_rank}, {sorted(self.chunks)})"


Content = Chunk | ReduceChunk | None
"""What lies in one chunk of a buffer; None where nothing was written."""


def origins(content: Content) -> list[tuple[int, int]]:
    """(origin rank, origin index) of every contribution, in order."""
    if content is None:
        return []
    chunks = [content] if isinstance(content, Chunk) else content.chunks
    return sorted((chunk.origin_rank, chunk.origin_index) for chunk in chunks)
