"""Memory: how the buffers of a script's collective lie in a native program."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from hemiola import collectives as native
from hemiola.errors import ChunkIndexError, CollectiveError
from hemiola.language.msccl.chunks import Chunk
from hemiola.language.msccl.collectives import Collective, as_standard
from hemiola.language.msccl.enums import Buffer
from hemiola.language.program import INPUT, OUTPUT

NATIVE_NAME = {Buffer.input: INPUT, Buffer.output: OUTPUT}


class Memory:
    """The native collective of a script's own one, and the native name of each chunk it can name.

    A collective that Hemiola knows keeps its meaning. A script's own one becomes ``Custom``, with promises
    that are filled in when its check has passed; where its two buffers share memory, both are native input.
    """

    def __init__(self, collective: Collective) -> None:
        self.collective = collective
        self.standard = as_standard(collective)
        if self.standard is not None:
            self.native = self.standard.native()
            self.shared = False
            inputs, outputs = self.native.named_chunks()
            self._sizes: dict[Buffer, list[int | None]] = {
                Buffer.input: inputs.tolist(), Buffer.output: outputs.tolist(),
            }  # fmt: skip
            return
        self._initial = _declared(collective)
        self.shared = any(self._aliased(rank) is not None for rank in range(len(self._initial)))
        held = [len(self._held(rank)) for rank in range(len(self._initial))]
        written = held if self.shared else [len(row.get(Buffer.output, ())) for row in self._initial]
        self._sizes = {
            buffer: [len(row[buffer]) if buffer in row else None for row in self._initial]
            for buffer in (Buffer.input, Buffer.output)
        }
        self.native = native.Custom(
            input_chunks=held, output_chunks=written, promises={}, in_place=self.shared
        )

    def place(self, rank: int, buffer: Buffer, index: int, count: int) -> tuple[Buffer, str, int]:
        """Where input or output chunks of ``rank`` lie: the script's name, the native name, the index."""
        self.check_rank(rank)
        size = self._sizes[buffer][rank]
        if index < 0 or (size is not None and index + count > size):
            asked = f"{buffer.name}[{index}] of rank {rank}" + (f" with size {count}" if count != 1 else "")
            held = f"chunks 0 to {size - 1}" if size else "no chunks"
            raise ChunkIndexError(f"{asked} is outside its buffer: {buffer.name} of rank {rank} has {held}")
        located, at = self.collective.get_buffer_index(rank, buffer, index)
        if located not in NATIVE_NAME:
            raise ChunkIndexError(
                f"get_buffer_index of {type(self.collective).__name__} puts {buffer.name}[{index}] of rank {rank} "
                f"in {located!r}; it must be Buffer.input or Buffer.output"
            )
        return located, INPUT if self.shared else NATIVE_NAME[located], at

    def size(self, rank: int, buffer: Buffer) -> int:
        """How many chunks a script sees in ``rank``'s input or output."""
        self.check_rank(rank)
        return self._sizes[buffer][rank] or 0

    def check_rank(self, rank: int) -> None:
        """Raise unless the program has such a rank."""
        last = self.native.num_ranks - 1
        if not 0 <= rank <= last:
            raise ChunkIndexError(f"rank {rank} does not exist: the program has ranks 0 to {last}")

    @cached_property
    def first(self) -> Mapping[tuple[int, int], Chunk | None]:
        """The script's chunk of each contribution (rank, native input index)."""
        if self.standard is not None:
            rows = [row[Buffer.input] for row in self.standard.init_buffers()]
        else:
            rows = [self._held(rank) for rank in range(len(self._initial))]
        return {(rank, index): chunk for rank, row in enumerate(rows) for index, chunk in enumerate(row)}

    @cached_property
    def blank(self) -> frozenset[tuple[int, int]]:
        """Native input chunks that hold nothing although the collective has them."""
        if self.standard is not None:
            return frozenset()
        return frozenset(where for where, chunk in self.first.items() if chunk is None)

    def _aliased(self, rank: int) -> Buffer | None:
        """The buffer that holds both of a rank's buffers; None if they are apart."""
        row = self._initial[rank]
        if row[Buffer.input] is row.get(Buffer.output):
            return Buffer.input
        for source, target in ((Buffer.input, Buffer.output), (Buffer.output, Buffer.input)):
            if self.collective.get_buffer_index(rank, source, 0)[0] == target:
                return target
        return None

    def _held(self, rank: int) -> list[Chunk | None]:
        row, aliased = self._initial[rank], self._aliased(rank)
        if aliased is not None:
            return row[aliased]
        if self.shared and row[Buffer.input] and row.get(Buffer.output):
            raise CollectiveError(
                f"{type(self.collective).__name__} has one memory for input and output on some ranks, but two on "
                f"rank {rank}; make it in place on all ranks or on none"
            )
        return row[Buffer.input] or (row.get(Buffer.output, []) if self.shared else [])


def _declared(collective: Collective) -> list[dict[Any, list[Chunk | None]]]:
    """What ``init_buffers`` gives, after a look at its form."""
    kind = type(collective).__name__
    rows = collective.init_buffers()
    if not isinstance(rows, (list, tuple)) or len(rows) != collective.num_ranks:
        found = f"{len(rows)} of them" if isinstance(rows, (list, tuple)) else repr(rows)
        raise CollectiveError(
            f"init_buffers of {kind} must give a list with the buffers of each of {collective.num_ranks} ranks, "
            f"but gives {found}"
        )
    for rank, row in enumerate(rows):
        if not isinstance(row, dict) or Buffer.input not in row:
            raise CollectiveError(f"init_buffers of {kind} gives rank {rank} no Buffer.input, but {row!r}")
        for buffer in set(row) & set(NATIVE_NAME):
            _check_row(f"{buffer.name} of rank {rank} in init_buffers of {kind}", row[buffer])
        _check_output(collective, rank, row)
    return list(rows)


def _check_row(what: str, row: object) -> None:
    if not isinstance(row, list):
        raise CollectiveError(f"{what} must be a list of Chunk and None, but is {row!r}")
    wrong = [content for content in row if not isinstance(content, (Chunk, type(None)))]
    if wrong:
        raise CollectiveError(f"{what} must hold only Chunk and None, but holds {wrong[0]!r}")


def _check_output(collective: Collective, rank: int, row: dict[Any, list[Chunk | None]]) -> None:
    output = row.get(Buffer.output, [])
    apart = output is not row[Buffer.input] and all(
        collective.get_buffer_index(rank, buffer, 0)[0] is buffer for buffer in NATIVE_NAME
    )
    held = [index for index, chunk in enumerate(output) if chunk is not None]
    if apart and held:
        raise CollectiveError(
            f"init_buffers of {type(collective).__name__} puts a chunk in output[{held[0]}] of rank {rank}, but an "
            "output holds nothing before; in place, give both names the same list, or override get_buffer_index"
        )
