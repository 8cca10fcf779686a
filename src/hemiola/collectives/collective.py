"""What each collective means: which contribution lies where before, and which must lie where after.

A collective *is* its precondition and its postcondition. Data is cut into chunks; chunk ``i`` of rank ``r``'s
input is one indivisible contribution. A promise is a set of contributions per chunk: one for data that is
moved, several for data that is summed. Both conditions are tables of ranges, because neighbouring chunks
are treated alike: a row speaks of ``count`` chunks, and a set names its contributions relative to the
row's ``input_index``. Lengths in bytes appear nowhere, so nothing that is proven here depends on them.

Worked example, two ranks, ``AllReduce(2, chunks=8)``: one row per rank says that its input chunks 0 to 7
hold its own contributions 0 to 7, and one that its output chunk k shall hold contribution k of both.

A new collective is a row in ``kinds.FACTS``, a row in ``KINDS`` here and a constructor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.collectives.kinds import CollectiveKind, parse_kind
from hemiola.errors import CollectiveError

Indices = npt.NDArray[np.int64]

HOLDING = np.dtype(_core.layout("Holding"))
"""A row of a precondition: chunk ``index + k`` holds contribution ``input_index + k`` of its rank."""

PROMISE = np.dtype(_core.layout("Promise"))
"""A row of a postcondition: chunk ``index + k`` must hold the sum of its set, shifted by ``input_index + k``."""

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


Chunk = tuple[int, int, int]
"""Rank, buffer, index."""
Contribution = tuple[int, int]
"""Rank, chunk of its input."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A collective's pre- and postcondition as tables."""

    num_ranks: int
    held: npt.NDArray[np.void]
    """Rows of HOLDING: what the inputs hold before."""
    promised: npt.NDArray[np.void]
    """Rows of PROMISE: what must lie where after."""
    set_first: npt.NDArray[np.uint32]
    """Set ``k`` is the union of ``runs[set_first[k]:set_first[k + 1]]``."""
    runs: npt.NDArray[np.uint64]
    """Half-open ranges of ``delta * num_ranks + rank``, shape (n, 2): input chunk ``delta`` of ``rank``."""

    def holdings(self) -> Iterator[tuple[Chunk, Contribution]]:
        """What each chunk holds before, one by one."""
        for rank, buffer, index, count, input_index in self.held.tolist():
            for k in range(count):
                yield (rank, buffer, index + k), (rank, input_index + k)

    def promises(self) -> Iterator[tuple[Chunk, frozenset[Contribution]]]:
        """What each promised chunk must hold after, one by one."""
        for row, (rank, buffer, index, count, _, _) in enumerate(self.promised.tolist()):
            for k in range(count):
                yield (rank, buffer, index + k), self.contributions(row, k)

    def contributions(self, row: int, offset: int) -> frozenset[Contribution]:
        """What the ``offset``-th chunk of a row of ``promised`` must hold."""
        promise = self.promised[row]
        first, end = (int(self.set_first[int(promise["set"]) + k]) for k in (0, 1))
        base = int(promise["input_index"]) + offset
        return frozenset(
            (atom % self.num_ranks, base + atom // self.num_ranks)
            for lo, hi in self.runs[first:end].tolist()
            for atom in range(lo, hi)
        )


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

    kind: CollectiveKind
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
        object.__setattr__(self, "kind", parse_kind(self.kind))
        if not 1 <= self.num_ranks <= MAX_RANKS:
            raise CollectiveError(
                f"{self.kind} needs between 1 and {MAX_RANKS} ranks, but has {self.num_ranks}"
            )
        largest = max(1, self.chunks) * (self.num_ranks if self._is_wide else 1)
        if self.chunks < 1 or largest > MAX_CHUNKS:
            raise CollectiveError(
                f"{self.kind} needs at least one chunk and at most {MAX_CHUNKS} per buffer, "
                f"but chunks is {self.chunks}"
            )
        for what, rank in (("root", self.root), ("peer", self.peer)):
            if not 0 <= rank < self.num_ranks:
                raise CollectiveError(f"{what} {rank} of {self.kind} is not one of {self.num_ranks} ranks")
        if self.in_place and not self.kind.facts.can_be_in_place:
            raise CollectiveError(f"{self.kind} has no in-place form; leave in_place out")
        if (self.custom is None) == (self.kind is CollectiveKind.CUSTOM):
            raise CollectiveError("a custom collective is made with Custom(...), and only that has promises")

    @property
    def _is_wide(self) -> bool:
        """Whether one buffer has a share for every rank."""
        return self.kind is not CollectiveKind.CUSTOM and self.kind.buffer_shares(2) > 1

    def num_shares(self) -> int:
        """Shares of the longest buffer of any rank: what the bytes of the collective count; at least one."""
        unit = 1 if self.custom is not None else self.chunks
        return max(1, *(int(sizes.max(initial=0)) // unit for sizes in self.named_chunks()))

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
            aliased, whole = (inputs, outputs) if alias.source == Buffer.INPUT else (outputs, inputs)
            shared = alias.offset >= 0
            whole[shared] = np.maximum(whole, alias.offset + aliased)[shared]
            aliased[shared] = 0
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
        rows, set_first, runs = kind.promises(self)
        promised = np.empty(len(rows.rank), PROMISE)
        promised["rank"], promised["buffer"], promised["index"] = rows.rank, Buffer.OUTPUT, rows.index
        promised["count"], promised["input_index"], promised["set"] = rows.count, rows.input_index, rows.set
        _apply_alias(self.alias(), held)
        _apply_alias(self.alias(), promised)
        return Meaning(self.num_ranks, held, promised, set_first.astype(np.uint32), runs.astype(np.uint64))


@dataclass(frozen=True, slots=True)
class PromisedRows:
    """The columns of a postcondition, still named by the output buffer."""

    rank: Indices
    index: Indices
    count: int
    input_index: Indices
    set: Indices


Promises = tuple[PromisedRows, Indices, Indices]
"""Rows, first run of each set and one past the last, runs."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table of collectives."""

    input_chunks: Callable[[Collective], Indices]
    output_chunks: Callable[[Collective], Indices]
    promises: Callable[[Collective], Promises]
    alias: Callable[[Collective], Alias]
    sources: Callable[[Collective], Indices]
    """The ranks whose input counts."""


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
    held = np.zeros(len(sources), HOLDING)
    held["rank"], held["buffer"], held["count"] = sources, Buffer.INPUT, sizes
    return held[sizes > 0]


def _apply_alias(alias: Alias | None, rows: npt.NDArray[np.void]) -> None:
    if alias is None:
        return
    offset = alias.offset[rows["rank"]]
    moved = (rows["buffer"] == alias.source) & (offset >= 0)
    rows["index"] = np.where(moved, rows["index"] + offset, rows["index"])
    rows["buffer"][moved] = alias.target


def _promise_sum(c: Collective, ranks: Indices, input_index: Indices) -> Promises:
    """Each of ``ranks`` gets C chunks of the sum over all ranks, from ``input_index`` on."""
    nothing = np.zeros_like(ranks)
    rows = PromisedRows(ranks, nothing, c.chunks, input_index, nothing)
    return rows, np.array([0, 1]), np.array([[0, c.num_ranks]])


def _promise_moved(
    c: Collective, ranks: Indices, index: Indices, origin: Indices, input_index: Indices
) -> Promises:
    """C output chunks of ``ranks[k]`` from ``index[k]`` on are input chunks of rank ``origin[k]``."""
    rows = PromisedRows(ranks, index, c.chunks, input_index, origin)
    everybody = _all_ranks(c)
    return rows, np.arange(c.num_ranks + 1), np.stack([everybody, everybody + 1], axis=1)


def _promise_all_inputs(c: Collective, ranks: Indices) -> Promises:
    """Each of ``ranks`` gets every rank's input, in the order of ranks."""
    origin = np.tile(_all_ranks(c), len(ranks))
    return _promise_moved(c, np.repeat(ranks, c.num_ranks), origin * c.chunks, origin, np.zeros_like(origin))


def _promise_exchange(c: Collective) -> Promises:
    ranks = np.repeat(_all_ranks(c), c.num_ranks)
    origin = np.tile(_all_ranks(c), c.num_ranks)
    return _promise_moved(c, ranks, origin * c.chunks, origin, ranks * c.chunks)


def _promise_next(c: Collective) -> Promises:
    ranks = _all_ranks(c)[1:]
    nothing = np.zeros_like(ranks)
    return _promise_moved(c, ranks, nothing, ranks - 1, nothing)


def _promise_from_root(c: Collective, ranks: Indices, input_index: Indices) -> Promises:
    """C output chunks of each of ``ranks`` are the root's input chunks from ``input_index`` on."""
    return _promise_moved(c, ranks, np.zeros_like(ranks), np.full_like(ranks, c.root), input_index)


def _meaning_of(c: Collective) -> CustomMeaning:
    assert c.custom is not None
    return c.custom


def _promise_custom(c: Collective) -> Promises:
    promises, factor = _meaning_of(c).promises, c.chunks
    base = [min(index for _, index in origins) for _, _, origins in promises]
    numbers: dict[tuple[int, ...], int] = {}
    sets = []
    for (_, _, origins), lowest in zip(promises, base, strict=True):
        atoms = sorted((index - lowest) * factor * c.num_ranks + rank for rank, index in origins)
        sets.append(numbers.setdefault(tuple(atoms), len(numbers)))
    rows = PromisedRows(
        rank=np.array([rank for rank, _, _ in promises], np.int64),
        index=np.array([index for _, index, _ in promises], np.int64) * factor,
        count=factor,
        input_index=np.array(base, np.int64) * factor,
        set=np.array(sets, np.int64),
    )
    first = np.cumsum([0, *(len(atoms) for atoms in numbers)])
    runs = np.array([(atom, atom + 1) for atoms in numbers for atom in atoms], np.int64)
    return rows, first, runs.reshape(-1, 2)


_IN, _OUT = Buffer.INPUT, Buffer.OUTPUT

KINDS: Mapping[CollectiveKind, Kind] = {
    CollectiveKind.ALLREDUCE: Kind(
        _every(_share), _every(_share), lambda c: _promise_sum(c, _all_ranks(c), 0 * _all_ranks(c)),
        _whole(_OUT, _IN), _all_ranks,
    ),
    CollectiveKind.ALLGATHER: Kind(
        _every(_share), _every(_all_shares), lambda c: _promise_all_inputs(c, _all_ranks(c)),
        _window(_IN, _OUT), _all_ranks,
    ),
    CollectiveKind.REDUCESCATTER: Kind(
        _every(_all_shares), _every(_share), lambda c: _promise_sum(c, _all_ranks(c), _all_ranks(c) * c.chunks),
        _window(_OUT, _IN), _all_ranks,
    ),
    CollectiveKind.ALLTOALL: Kind(
        _every(_all_shares), _every(_all_shares), _promise_exchange, _whole(_OUT, _IN), _all_ranks,
    ),
    CollectiveKind.ALLTONEXT: Kind(
        _every(_share), _every(_share), _promise_next, _whole(_OUT, _IN), _all_ranks,
    ),
    CollectiveKind.BROADCAST: Kind(
        lambda c: (_every(_share) if c.in_place else _only_root(_share))(c), _every(_share),
        lambda c: _promise_from_root(c, _all_ranks(c), 0 * _all_ranks(c)), _whole(_OUT, _IN), _root_alone,
    ),
    CollectiveKind.REDUCE: Kind(
        _every(_share), _only_root(_share), lambda c: _promise_sum(c, _root_alone(c), 0 * _root_alone(c)),
        _whole(_OUT, _IN), _all_ranks,
    ),
    CollectiveKind.GATHER: Kind(
        _every(_share), _only_root(_all_shares), lambda c: _promise_all_inputs(c, _root_alone(c)),
        _root_window(_IN, _OUT), _all_ranks,
    ),
    CollectiveKind.SCATTER: Kind(
        _only_root(_all_shares), _every(_share), lambda c: _promise_from_root(c, _all_ranks(c), _all_ranks(c) * c.chunks), _root_window(_OUT, _IN), _root_alone,
    ),
    CollectiveKind.SENDRECV: Kind(
        _only_root(_share), lambda c: np.where(_all_ranks(c) == c.peer, c.chunks, 0), lambda c: _promise_from_root(c, np.array([c.peer], np.int64), np.zeros(1, np.int64)),
        _whole(_OUT, _IN), _root_alone,
    ),
    CollectiveKind.CUSTOM: Kind(
        lambda c: np.array(_meaning_of(c).input_chunks, np.int64) * c.chunks,
        lambda c: np.array(_meaning_of(c).output_chunks, np.int64) * c.chunks,
        _promise_custom, _whole(_OUT, _IN), _all_ranks,
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
