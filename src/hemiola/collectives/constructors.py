"""Constructors of collectives, named like the collectives that they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hemiola.collectives.collective import MAX_CHUNKS, Collective, CustomMeaning
from hemiola.collectives.kinds import CollectiveKind
from hemiola.errors import CollectiveError


def AllReduce(num_ranks: int, chunks: int = 1, *, in_place: bool = False) -> Collective:
    """Everybody gets the sum."""
    return Collective(CollectiveKind.ALLREDUCE, num_ranks, chunks, in_place)


def AllGather(num_ranks: int, chunks: int = 1, *, in_place: bool = False) -> Collective:
    """Everybody gets everybody's input."""
    return Collective(CollectiveKind.ALLGATHER, num_ranks, chunks, in_place)


def ReduceScatter(num_ranks: int, chunks: int = 1, *, in_place: bool = False) -> Collective:
    """Everybody gets its own share of the sum."""
    return Collective(CollectiveKind.REDUCESCATTER, num_ranks, chunks, in_place)


def AllToAll(num_ranks: int, chunks: int = 1, *, in_place: bool = False) -> Collective:
    """Everybody gets its share of everybody's input."""
    return Collective(CollectiveKind.ALLTOALL, num_ranks, chunks, in_place)


def AllToNext(num_ranks: int, chunks: int = 1) -> Collective:
    """Rank r's input becomes rank r + 1's output; the last sends nothing."""
    return Collective(CollectiveKind.ALLTONEXT, num_ranks, chunks)


def Broadcast(num_ranks: int, chunks: int = 1, *, root: int = 0, in_place: bool = False) -> Collective:
    """Everybody gets the root's input."""
    return Collective(CollectiveKind.BROADCAST, num_ranks, chunks, in_place, root)


def Reduce(num_ranks: int, chunks: int = 1, *, root: int = 0, in_place: bool = False) -> Collective:
    """The root gets the sum."""
    return Collective(CollectiveKind.REDUCE, num_ranks, chunks, in_place, root)


def Gather(num_ranks: int, chunks: int = 1, *, root: int = 0, in_place: bool = False) -> Collective:
    """The root gets everybody's input."""
    return Collective(CollectiveKind.GATHER, num_ranks, chunks, in_place, root)


def Scatter(num_ranks: int, chunks: int = 1, *, root: int = 0, in_place: bool = False) -> Collective:
    """Everybody gets its share of the root's input."""
    return Collective(CollectiveKind.SCATTER, num_ranks, chunks, in_place, root)


def SendRecv(num_ranks: int, chunks: int = 1, *, source: int = 0, destination: int = 1) -> Collective:
    """One rank's input becomes another's output."""
    return Collective(CollectiveKind.SENDRECV, num_ranks, chunks, root=source, peer=destination)


def Custom(
    *,
    input_chunks: Iterable[int],
    output_chunks: Iterable[int],
    promises: Mapping[tuple[int, int], Iterable[tuple[int, int]]],
    in_place: bool = False,
) -> Collective:
    """A collective of one's own: sizes per rank, and per output chunk the input chunks that it must sum.

    ``Custom(input_chunks=[1, 1], output_chunks=[1, 0], promises={(0, 0): [(0, 0), (1, 0)]})`` asks that
    output chunk 0 of rank 0 be the sum of both ranks' input chunk 0.
    """
    inputs, outputs = tuple(input_chunks), tuple(output_chunks)
    if len(inputs) != len(outputs) or not inputs:
        raise CollectiveError(
            f"input_chunks names {len(inputs)} ranks and output_chunks {len(outputs)}; "
            "both need one size per rank"
        )
    if any(not 0 <= size <= MAX_CHUNKS for size in inputs + outputs):
        raise CollectiveError(f"a buffer has between 0 and {MAX_CHUNKS} chunks; found {inputs} and {outputs}")
    rows = []
    for (rank, index), origins in sorted(promises.items()):
        _check_named("output", rank, index, outputs)
        sources = tuple(sorted(origins))
        for origin_rank, origin_index in sources:
            _check_named("input", origin_rank, origin_index, inputs)
        if not sources or len(set(sources)) != len(sources):
            raise CollectiveError(
                f"output chunk {index} of rank {rank} must be promised each contribution once and at least "
                f"one, but is promised {list(sources)}"
            )
        rows.append((rank, index, sources))
    meaning = CustomMeaning(inputs, outputs, tuple(rows))
    return Collective(CollectiveKind.CUSTOM, len(inputs), in_place=in_place, custom=meaning)


def _check_named(what: str, rank: int, index: int, sizes: tuple[int, ...]) -> None:
    if not (0 <= rank < len(sizes) and 0 <= index < sizes[rank]):
        raise CollectiveError(
            f"chunk {index} of rank {rank}'s {what} does not exist: the {what}s have {list(sizes)} chunks"
        )
