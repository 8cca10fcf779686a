"""CutTraffic: the bytes of a collective that must pass between parts of its ranks, whatever the algorithm.

The ranks are cut into parts. What happens inside a part is free. Data moves in chunks that are contributions or sums
of contributions, as plans move it. S are the bytes of the collective (`collectives.kinds`), n the ranks, u those of a part,
m the parts. A chunk must enter a part whose promises depend on contributions from outside, and must leave a
part on whose contributions promises outside depend; distinct chunks and distinct sums are independent, so each counts:

| collective | enters a part | leaves a part | all parts together |
|---|---|---|---|
| allreduce | S | S | 2 (m - 1) S |
| allgather | (n - u) S / n | u S / n | (m - 1) S |
| reducescatter | u S / n | (n - u) S / n | (m - 1) S |
| alltoall | u (n - u) S / n | the same | the sum |
| broadcast | S without the root | S with the root | (m - 1) S |
| reduce | S with the root | S without the root | (m - 1) S |
| gather | (n - u) S / n with the root | u S / n without the root | (n - u of the root's part) S / n |
| scatter | u S / n without the root | (n - u) S / n with the root | (n - u of the root's part) S / n |
| alltonext | S for every rank whose predecessor is outside | likewise successor | the sum |
| sendrecv | S with the destination alone | S with the source alone | S, if they are apart |

Why 2 (m - 1) S: follow one element, and let X be the first part that could know its whole sum, at the event e. Every
other part has sent something about it that reached X by e: m - 1 messages received up to e. No other part could know
the sum at e, so each receives a message after e: m - 1 more. Why (m - 1) S for reducescatter: of the shares of a part,
each of the m - 1 others must send its own contribution, and without a sum on the way these are different messages.

Switches that add up merge messages between sending and receiving, switches that multicast copy them. What enters and
leaves one part is information and stays. Of the totals, with sums in the network only the sending side of the argument
above holds, with multicast only the receiving side; what is left otherwise is the sum over the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hemiola.collectives import Collective, CollectiveKind

Amounts = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CutTraffic:
    """Bytes that must pass between parts."""

    enters: Amounts
    """Into each part."""
    leaves: Amounts
    """Out of each part."""
    received: float
    """Into all parts together."""
    sent: float
    """Out of all parts together."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Ranks cut into parts, of which none is empty."""

    part_of_rank: Numbers
    sizes: Numbers

    @staticmethod
    def of(part_of_rank: Numbers) -> Parts:
        """Parts are numbered from 0, without gaps."""
        return Parts(part_of_rank, np.bincount(part_of_rank))

    def has(self, rank: int) -> npt.NDArray[np.bool_]:
        """Which part a rank is in, as flags."""
        flags = np.zeros(len(self.sizes), np.bool_)
        flags[self.part_of_rank[rank]] = True
        return flags


Amount = tuple[npt.NDArray[Any], npt.NDArray[Any], float]
"""What enters each part, leaves each part, and passes between all parts, in parts of the bytes of the collective."""


def cut_traffic(
    collective: Collective, num_bytes: float, parts: Parts, *, reduces: bool = False, multicasts: bool = False
) -> CutTraffic:
    """What must pass between parts where switches between them add up or multicast, or do neither."""
    entering, leaving, total = PASSING[collective.kind](collective, parts)
    enters, leaves = (np.asarray(each, np.float64) * num_bytes for each in (entering, leaving))
    received, sent = float(enters.sum()), float(leaves.sum())
    all_parts = total * num_bytes
    return CutTraffic(
        enters,
        leaves,
        received if reduces else max(all_parts, received),
        sent if multicasts else max(all_parts, sent),
    )


def _allreduce(c: Collective, parts: Parts) -> Amount:
    several = np.full(len(parts.sizes), float(len(parts.sizes) > 1))
    return several, several, 2.0 * (len(parts.sizes) - 1)


def _allgather(c: Collective, parts: Parts) -> Amount:
    apart = len(parts.sizes) > 1
    return (
        (c.num_ranks - parts.sizes) / c.num_ranks,
        parts.sizes * float(apart) / c.num_ranks,
        float(len(parts.sizes) - 1),
    )


def _reducescatter(c: Collective, parts: Parts) -> Amount:
    apart = len(parts.sizes) > 1
    return (
        parts.sizes * apart / c.num_ranks,
        (c.num_ranks - parts.sizes) / c.num_ranks,
        float(len(parts.sizes) - 1),
    )


def _alltoall(c: Collective, parts: Parts) -> Amount:
    each = parts.sizes * (c.num_ranks - parts.sizes) / c.num_ranks
    return each, each, float(each.sum())


def _broadcast(c: Collective, parts: Parts) -> Amount:
    root = parts.has(c.root)
    return ~root, root & (len(parts.sizes) > 1), float(len(parts.sizes) - 1)


def _reduce(c: Collective, parts: Parts) -> Amount:
    root = parts.has(c.root)
    return root & (len(parts.sizes) > 1), ~root, float(len(parts.sizes) - 1)


def _gather(c: Collective, parts: Parts) -> Amount:
    root, outside = parts.has(c.root), (c.num_ranks - parts.sizes) / c.num_ranks
    return outside * root, parts.sizes * ~root / c.num_ranks, float((outside * root).sum())


def _scatter(c: Collective, parts: Parts) -> Amount:
    entering, leaving, total = _gather(c, parts)
    return leaving, entering, total


def _pairs(sources: Numbers, destinations: Numbers, parts: Parts) -> Amount:
    """What goes from some ranks to others, each once."""
    apart = parts.part_of_rank[sources] != parts.part_of_rank[destinations]
    num = len(parts.sizes)
    entering = np.bincount(parts.part_of_rank[destinations[apart]], minlength=num).astype(np.float64)
    leaving = np.bincount(parts.part_of_rank[sources[apart]], minlength=num).astype(np.float64)
    return entering, leaving, float(apart.sum())


def _alltonext(c: Collective, parts: Parts) -> Amount:
    ranks = np.arange(c.num_ranks)
    return _pairs(ranks[:-1], ranks[1:], parts)


def _sendrecv(c: Collective, parts: Parts) -> Amount:
    return _pairs(np.array([c.root]), np.array([c.peer]), parts)


def _custom(c: Collective, parts: Parts) -> Amount:
    """Only contributions that are promised unsummed are surely independent, and where there are none, one chunk is
    sure to pass if a promise depends on the other side."""
    meaning, num = c.meaning(), len(parts.sizes)
    alone: list[set[tuple[int, int]]] = [set() for _ in range(num)]
    given: list[set[tuple[int, int]]] = [set() for _ in range(num)]
    takes, gives = np.zeros(num), np.zeros(num)
    for (rank, _, _), contributions in meaning.promises():
        inside = int(parts.part_of_rank[rank])
        for origin, index in contributions:
            outside = int(parts.part_of_rank[origin])
            if outside == inside:
                continue
            takes[inside] = gives[outside] = 1.0
            if len(contributions) == 1:
                alone[inside].add((origin, index))
                given[outside].add((origin, index))
    unit = 1.0 / max(1, *(int(sizes.max()) for sizes in c.named_chunks()))
    entering = np.maximum(takes, [len(found) for found in alone]) * unit
    leaving = np.maximum(gives, [len(found) for found in given]) * unit
    return entering, leaving, 0.0


PASSING: Mapping[CollectiveKind, Callable[[Collective, Parts], Amount]] = {
    CollectiveKind.ALLREDUCE: _allreduce,
    CollectiveKind.ALLGATHER: _allgather,
    CollectiveKind.REDUCESCATTER: _reducescatter,
    CollectiveKind.ALLTOALL: _alltoall,
    CollectiveKind.ALLTONEXT: _alltonext,
    CollectiveKind.BROADCAST: _broadcast,
    CollectiveKind.REDUCE: _reduce,
    CollectiveKind.GATHER: _gather,
    CollectiveKind.SCATTER: _scatter,
    CollectiveKind.SENDRECV: _sendrecv,
    CollectiveKind.CUSTOM: _custom,
}
"""By collective: what passes, in parts of its bytes."""
