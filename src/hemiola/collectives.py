"""What each collective means: which contribution lies where before, and which must lie where after.

A collective *is* its precondition and its postcondition. Data is cut into chunks; the chunk ``index`` of
rank ``rank``'s input is one indivisible contribution, an **atom**, numbered ``index * num_ranks + rank``
so that the atoms that a reduction adds up are neighbours. A promise is a set of atoms per chunk: one atom
for data that is moved, several for data that is summed. Lengths in bytes appear nowhere, so nothing that
is proven here depends on them.

Worked example, two ranks, ``AllReduce(2, chunks=2)``: rank 0's input chunks are atoms 0 and 2, rank 1's
are 1 and 3; afterwards chunk 0 of both outputs holds {0, 1} and chunk 1 holds {2, 3}.

A new collective is one row in ``KINDS`` and one constructor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from hemiola.errors import CollectiveError

Indices = npt.NDArray[np.int64]

HOLDING = np.dtype([("rank", "<u4"), ("buffer", "<u4"), ("index", "<u4"), ("atom", "<u4")])
"""A row of a precondition: this chunk holds this atom."""

PROMISE = np.dtype([("rank", "<u4"), ("buffer", "<u4"), ("index", "<u4"), ("set", "<u4")])
"""A row of a postcondition: this chunk must hold the sum of this set of atoms."""

MAX_RANKS = 1 << 20
MAX_CHUNKS = 1 << 28
"""Chunks of one rank's buffer: more than any runtime takes, few enough that no product overflows."""


class Buffer(IntEnum):
    """Where a chunk lies on its rank."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2


@dataclass(frozen=True, slots=True)
class Alias:
    """In place: chunk ``i`` of ``source`` is the same memory as chunk ``offset[rank] + i`` of ``target``."""

    source: Buffer
    target: Buffer
    offset: Indices
    """Per rank; negative where the rank's buffers do not overlap."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A collective's pre- and postcondition as tables."""

    held: npt.NDArray[np.void]
    """Rows of HOLDING: what the inputs hold before."""
    promised: npt.NDArray[np.void]
    """Rows of PROMISE: what must lie where after."""
    set_first: npt.NDArray[np.uint32]
    """Set ``k`` is the union of ``runs[set_first[k]:set_first[k + 1]]``."""
    runs: npt.NDArray[np.uint32]
    """Half-open ranges of atoms, shape (n, 2)."""


@dataclass(frozen=True, slots=True)
class CustomMeaning:
    """A user's own collective: sizes per rank, and the contributions that each output chunk must hold."""

    input_chunks: tuple[int, ...]
    output_chunks: tuple[int, ...]
    promises: tuple[tuple[int, int, tuple[tuple[int, int], ...]], ...]
    """(rank, output index, ((origin rank, input index), ...)), sorted; what is not named is not promised."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective for a fixed number of ranks and chunks."""

    kind: str
    """A key of ``KINDS``."""
    num_ranks: int
    chunks: int = 1
    """Pieces into which one rank's share is cut; see the kind's row for how many each buffer has."""
    in_place: bool = False
    root: int = 0
    """The one rank that gives or takes (broadcast, reduce, gather, scatter); the source of sendrecv."""
    peer: int = 0
    """The destination of sendrecv."""
    custom: CustomMeaning | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise CollectiveError(f"there is no collective '{self.kind}'; known are {', '.join(KINDS)}")
        if not 1 <= self.num_ranks <= MAX_RANKS:
            raise CollectiveError(
                f"{self.kind} needs between 1 and {MAX_RANKS} ranks, but has {self.num_ranks}"
            )
        largest = max(1, self.chunks) * (self.num_ranks if KINDS[self.kind].wide else 1)
        if self.chunks < 1 or largest > MAX_CHUNKS:
            raise CollectiveError(
                f"{self.kind} needs at least one chunk and at most {MAX_CHUNKS} per buffer, "
                f"but chunks is {self.chunks}"
            )
        for what, rank in (("root", self.root), ("peer", self.peer)):
            if not 0 <= rank < self.num_ranks:
                raise CollectiveError(f"{what} {rank} of {self.kind} is not one of {self.num_ranks} ranks")
        if self.in_place and not KINDS[self.kind].can_be_in_place:
            raise CollectiveError(f"{self.kind} has no in-place form; leave in_place out")
        if (self.custom is None) == (self.kind == "custom"):
            raise CollectiveError("a custom collective is made with Custom(...), and only that has promises")

    def input_chunks(self, rank: int) -> int:
        """How many chunks a program may name in ``rank``'s input."""
        return int(KINDS[self.kind].input_chunks(self)[rank])

    def output_chunks(self, rank: int) -> int:
        """How many chunks a program may name in ``rank``'s output."""
        return int(KINDS[self.kind].output_chunks(self)[rank])

    def named_chunks(self) -> tuple[Indices, Indices]:
        """Sizes of all inputs and of all outputs as a program names them."""
        kind = KINDS[self.kind]
        return kind.input_chunks(self), kind.output_chunks(self)

    def stored_chunks(self) -> tuple[Indices, Indices]:
        """Sizes of all inputs and outputs in memory: in place, the aliased buffer has none of its own."""
        inputs, outputs = (sizes.copy() for sizes in self.named_chunks())
        alias = self.alias()
        if alias is not None:
            aliased = inputs if alias.source == Buffer.INPUT else outputs
            aliased[alias.offset >= 0] = 0
        return inputs, outputs

    def alias(self) -> Alias | None:
        """Which buffer is a window of the other; None when out of place."""
        return KINDS[self.kind].alias(self) if self.in_place else None

    def locate(self, rank: int, buffer: Buffer, index: int) -> tuple[Buffer, int]:
        """The one name of a chunk's memory, whatever name the program used."""
        alias = self.alias()
        if alias is None or buffer != alias.source or alias.offset[rank] < 0:
            return buffer, index
        return alias.target, index + int(alias.offset[rank])

    def refine(self, factor: int) -> Collective:
        """The same collective with every chunk cut into ``factor`` pieces."""
        return replace(self, chunks=self.chunks * factor)

    def with_place(self, *, in_place: bool) -> Collective:
        """The same collective in or out of place."""
        return replace(self, in_place=in_place)

    def meaning(self) -> Meaning:
        """The pre- and postcondition, with chunks named by the memory they lie in."""
        kind = KINDS[self.kind]
        held = _hold_inputs(self, kind.sources(self))
        rank, index, set_id, sets = kind.promises(self)
        promised = np.empty(len(rank), PROMISE)
        promised["rank"], promised["buffer"], promised["index"] = rank, Buffer.OUTPUT, index
        promised["set"] = set_id
        set_first, runs = sets
        _apply_alias(self.alias(), held)
        _apply_alias(self.alias(), promised)
        return Meaning(held, promised, set_first.astype(np.uint32), runs.astype(np.uint32))


Sets = tuple[Indices, Indices]
"""(first run of each set and one past the last, runs of shape (n, 2))."""
Promises = tuple[Indices, Indices, Indices, Sets]
"""(rank, output index, set) per promised chunk, and the sets."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table of collectives."""

    input_chunks: Callable[[Collective], Indices]
    output_chunks: Callable[[Collective], Indices]
    promises: Callable[[Collective], Promises]
    alias: Callable[[Collective], Alias]
    sources: Callable[[Collective], Indices]
    """The ranks whose input counts."""
    can_be_in_place: bool = True
    wide: bool = True
    """Whether one buffer has a share for every rank."""
    sums: bool = False
    """Whether data is added up, so that a reduction operator matters."""


def _every(size: Callable[[Collective], int]) -> Callable[[Collective], Indices]:
    return lambda c: np.full(c.num_ranks, size(c), np.int64)


def _only_root(size: Callable[[Collective], int]) -> Callable[[Collective], Indices]:
    return lambda c: np.where(np.arange(c.num_ranks) == c.root, size(c), 0)


def _share(c: Collective) -> int:
    return c.chunks


def _all_shares(c: Collective) -> int:
    return c.chunks * c.num_ranks


def _all_ranks(c: Collective) -> Indices:
    return np.arange(c.num_ranks, dtype=np.int64)


def _root_alone(c: Collective) -> Indices:
    return np.array([c.root], np.int64)


def _whole(source: Buffer, target: Buffer) -> Callable[[Collective], Alias]:
    """Both buffers are the same memory."""
    return lambda c: Alias(source, target, np.zeros(c.num_ranks, np.int64))


def _window(source: Buffer, target: Buffer) -> Callable[[Collective], Alias]:
    """``source`` is the rank's own share of ``target``."""
    return lambda c: Alias(source, target, _all_ranks(c) * c.chunks)


def _root_window(source: Buffer, target: Buffer) -> Callable[[Collective], Alias]:
    """As ``_window``, on the root alone; the other ranks have only one of the two buffers."""
    return lambda c: Alias(source, target, np.where(_all_ranks(c) == c.root, c.root * c.chunks, -1))


def _hold_inputs(c: Collective, sources: Indices) -> npt.NDArray[np.void]:
    sizes = KINDS[c.kind].input_chunks(c)[sources]
    rank = np.repeat(sources, sizes)
    index = np.arange(len(rank)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    held = np.empty(len(rank), HOLDING)
    held["rank"], held["buffer"], held["index"] = rank, Buffer.INPUT, index
    held["atom"] = index * c.num_ranks + rank
    return held


def _apply_alias(alias: Alias | None, rows: npt.NDArray[np.void]) -> None:
    if alias is None:
        return
    offset = alias.offset[rows["rank"]]
    moved = (rows["buffer"] == alias.source) & (offset >= 0)
    rows["index"] = np.where(moved, rows["index"] + offset, rows["index"])
    rows["buffer"][moved] = alias.target


def _sums_over_ranks(c: Collective, num_indices: int) -> Sets:
    """Set ``i`` is input chunk ``i`` of every rank."""
    start = np.arange(num_indices, dtype=np.int64) * c.num_ranks
    return np.arange(num_indices + 1, dtype=np.int64), np.stack([start, start + c.num_ranks], axis=1)


def _single_atoms(atoms: Indices) -> Sets:
    """Set ``k`` is the one atom ``atoms[k]``."""
    return np.arange(len(atoms) + 1, dtype=np.int64), np.stack([atoms, atoms + 1], axis=1)


def _promise_sum(c: Collective, ranks: Indices) -> Promises:
    """Each of ``ranks`` gets every chunk of the sum."""
    index = np.tile(np.arange(c.chunks, dtype=np.int64), len(ranks))
    return np.repeat(ranks, c.chunks), index, index, _sums_over_ranks(c, c.chunks)


def _promise_own_share_of_sum(c: Collective) -> Promises:
    total = _all_shares(c)
    position = np.arange(total, dtype=np.int64)
    return position // c.chunks, position % c.chunks, position, _sums_over_ranks(c, total)


def _promise_all_inputs(c: Collective, ranks: Indices) -> Promises:
    """Each of ``ranks`` gets every rank's input, in the order of ranks."""
    total = _all_shares(c)
    position = np.arange(total, dtype=np.int64)
    atoms = (position % c.chunks) * c.num_ranks + position // c.chunks
    index = np.tile(position, len(ranks))
    return np.repeat(ranks, total), index, index, _single_atoms(atoms)


def _promise_moved(c: Collective, ranks: Indices, origin: Indices, shift: Indices, length: int) -> Promises:
    """Output chunk ``i`` of ``ranks[k]`` is input chunk ``shift[k] + i`` of rank ``origin[k]``."""
    index = np.tile(np.arange(length, dtype=np.int64), len(ranks))
    atoms = (np.repeat(shift, length) + index) * c.num_ranks + np.repeat(origin, length)
    return np.repeat(ranks, length), index, np.arange(len(index), dtype=np.int64), _single_atoms(atoms)


def _promise_exchange(c: Collective) -> Promises:
    ranks = _all_ranks(c)
    position = np.arange(_all_shares(c), dtype=np.int64)
    receiver = np.repeat(ranks, len(position))
    index = np.tile(position, c.num_ranks)
    atoms = (receiver * c.chunks + index % c.chunks) * c.num_ranks + index // c.chunks
    return receiver, index, np.arange(len(index), dtype=np.int64), _single_atoms(atoms)


def _promise_next(c: Collective) -> Promises:
    ranks = _all_ranks(c)[1:]
    return _promise_moved(c, ranks, ranks - 1, np.zeros_like(ranks), c.chunks)


def _promise_broadcast(c: Collective) -> Promises:
    ranks = _all_ranks(c)
    return _promise_moved(c, ranks, np.full_like(ranks, c.root), np.zeros_like(ranks), c.chunks)


def _promise_scatter(c: Collective) -> Promises:
    ranks = _all_ranks(c)
    return _promise_moved(c, ranks, np.full_like(ranks, c.root), ranks * c.chunks, c.chunks)


def _promise_delivery(c: Collective) -> Promises:
    return _promise_moved(
        c, np.array([c.peer], np.int64), np.array([c.root], np.int64), np.zeros(1, np.int64), c.chunks
    )


def _meaning_of(c: Collective) -> CustomMeaning:
    assert c.custom is not None
    return c.custom


def _promise_custom(c: Collective) -> Promises:
    custom, factor = _meaning_of(c), c.chunks
    rank, index, set_id, first, runs = [], [], [], [0], []
    for to_rank, to_index, origins in custom.promises:
        for piece in range(factor):
            rank.append(to_rank)
            index.append(to_index * factor + piece)
            set_id.append(len(first) - 1)
            for atom in sorted((i * factor + piece) * c.num_ranks + r for r, i in origins):
                runs.append((atom, atom + 1))
            first.append(len(runs))
    as_rows = np.array(runs, np.int64).reshape(-1, 2)
    return (
        np.array(rank, np.int64),
        np.array(index, np.int64),
        np.array(set_id, np.int64),
        (
            np.array(first, np.int64),
            as_rows,
        ),
    )


_IN, _OUT = Buffer.INPUT, Buffer.OUTPUT

KINDS: Mapping[str, Kind] = {
    "allreduce": Kind(
        _every(_share), _every(_share), lambda c: _promise_sum(c, _all_ranks(c)),
        _whole(_OUT, _IN), _all_ranks, wide=False, sums=True,
    ),
    "allgather": Kind(
        _every(_share), _every(_all_shares), lambda c: _promise_all_inputs(c, _all_ranks(c)),
        _window(_IN, _OUT), _all_ranks,
    ),
    "reducescatter": Kind(
        _every(_all_shares), _every(_share), _promise_own_share_of_sum,
        _window(_OUT, _IN), _all_ranks, sums=True,
    ),
    "alltoall": Kind(
        _every(_all_shares), _every(_all_shares), _promise_exchange, _whole(_OUT, _IN), _all_ranks,
    ),
    "alltonext": Kind(
        _every(_share), _every(_share), _promise_next, _whole(_OUT, _IN), _all_ranks,
        can_be_in_place=False, wide=False,
    ),
    "broadcast": Kind(
        lambda c: (_every(_share) if c.in_place else _only_root(_share))(c), _every(_share),
        _promise_broadcast, _whole(_OUT, _IN), _root_alone, wide=False,
    ),
    "reduce": Kind(
        _every(_share), _only_root(_share), lambda c: _promise_sum(c, _root_alone(c)),
        _whole(_OUT, _IN), _all_ranks, wide=False, sums=True,
    ),
    "gather": Kind(
        _every(_share), _only_root(_all_shares), lambda c: _promise_all_inputs(c, _root_alone(c)),
        _root_window(_IN, _OUT), _all_ranks,
    ),
    "scatter": Kind(
        _only_root(_all_shares), _every(_share), _promise_scatter, _root_window(_OUT, _IN), _root_alone,
    ),
    "sendrecv": Kind(
        _only_root(_share), lambda c: np.where(_all_ranks(c) == c.peer, c.chunks, 0), _promise_delivery,
        _whole(_OUT, _IN), _root_alone, can_be_in_place=False, wide=False,
    ),
    "custom": Kind(
        lambda c: np.array(_meaning_of(c).input_chunks, np.int64) * c.chunks,
        lambda c: np.array(_meaning_of(c).output_chunks, np.int64) * c.chunks,
        _promise_custom, _whole(_OUT, _IN), _all_ranks, wide=False, sums=True,
    ),
}  # fmt: skip
"""Every collective. With C chunks and R ranks the buffers hold, per rank:

| kind | input | output | output chunk i of rank r afterwards |
|---|---|---|---|
| allreduce | C | C | the sum of input i over all ranks |
| allgather | C | C R | input i % C of rank i // C |
| reducescatter | C R | C | the sum of input r C + i over all ranks |
| alltoall | C R | C R | input r C + i % C of rank i // C |
| alltonext | C | C | input i of rank r - 1; rank 0 is promised nothing |
| broadcast | C on the root | C | input i of the root |
| reduce | C | C on the root | the sum of input i over all ranks |
| gather | C | C R on the root | input i % C of rank i // C |
| scatter | C R on the root | C | input r C + i of the root |
| sendrecv | C on root | C on peer | input i of root |
| custom | as declared | as declared | as declared |

In place, allreduce, alltoall, broadcast, reduce and custom use one memory for both; allgather and gather
keep a rank's input in its own share of the output, reducescatter and scatter the output in the input.
"""


def AllReduce(num_ranks: int, chunks: int = 1, *, in_place: bool = False) -> Collective:
    """Everybody gets the sum."""
    return Collective("allreduce", num_ranks, chunks, in_place)


def AllGather(num_ranks: int, chunks: int = 1, *, in_place: bool = False) -> Collective:
    """Everybody gets everybody's input."""
    return Collective("allgather", num_ranks, chunks, in_place)


def ReduceScatter(num_ranks: int, chunks: int = 1, *, in_place: bool = False) -> Collective:
    """Everybody gets its own share of the sum."""
    return Collective("reducescatter", num_ranks, chunks, in_place)


def AllToAll(num_ranks: int, chunks: int = 1, *, in_place: bool = False) -> Collective:
    """Everybody gets its share of everybody's input."""
    return Collective("alltoall", num_ranks, chunks, in_place)


def AllToNext(num_ranks: int, chunks: int = 1) -> Collective:
    """Rank r's input becomes rank r + 1's output; the last sends nothing."""
    return Collective("alltonext", num_ranks, chunks)


def Broadcast(num_ranks: int, chunks: int = 1, *, root: int = 0, in_place: bool = False) -> Collective:
    """Everybody gets the root's input."""
    return Collective("broadcast", num_ranks, chunks, in_place, root)


def Reduce(num_ranks: int, chunks: int = 1, *, root: int = 0, in_place: bool = False) -> Collective:
    """The root gets the sum."""
    return Collective("reduce", num_ranks, chunks, in_place, root)


def Gather(num_ranks: int, chunks: int = 1, *, root: int = 0, in_place: bool = False) -> Collective:
    """The root gets everybody's input."""
    return Collective("gather", num_ranks, chunks, in_place, root)


def Scatter(num_ranks: int, chunks: int = 1, *, root: int = 0, in_place: bool = False) -> Collective:
    """Everybody gets its share of the root's input."""
    return Collective("scatter", num_ranks, chunks, in_place, root)


def SendRecv(num_ranks: int, chunks: int = 1, *, source: int = 0, destination: int = 1) -> Collective:
    """One rank's input becomes another's output."""
    return Collective("sendrecv", num_ranks, chunks, root=source, peer=destination)


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
    return Collective("custom", len(inputs), in_place=in_place, custom=meaning)


def _check_named(what: str, rank: int, index: int, sizes: tuple[int, ...]) -> None:
    if not (0 <= rank < len(sizes) and 0 <= index < sizes[rank]):
        raise CollectiveError(
            f"chunk {index} of rank {rank}'s {what} does not exist: the {what}s have {list(sizes)} chunks"
        )
