"""The five rules: when a collective may run on a group, and what its members hold afterwards.

| collective | may run when | afterwards |
|---|---|---|
| allreduce | nobody empty, the same rows, no bit twice | everyone has the sum |
| reducescatter | as allreduce, and the members divide the rows | member i has the i-th contiguous part of the rows |
| allgather | nobody empty, equally many rows, no row twice | everyone has the sum |
| reduce | as allreduce | the first has the sum, the others nothing |
| broadcast | the first is not empty, the others hold a part of what it has | everyone has what the first has |
"""

from __future__ import annotations

from collections.abc import Sequence

from hemiola.collectives import CollectiveKind
from hemiola.synthesis.state import Rows

Matrices = tuple[int, ...]
"""What the members of a group hold, in order."""


def outcomes(held: Sequence[int], rows: Rows) -> dict[CollectiveKind, Matrices]:
    """What every collective that may run on a group leaves in its members."""
    found: dict[CollectiveKind, Matrices] = {}
    first, size = held[0], len(held)
    if first == 0:
        return found
    if all(matrix | first == first for matrix in held):
        found[CollectiveKind.BROADCAST] = (first,) * size
    second = held[1]
    shared = rows.of(first) & rows.of(second)
    if second == 0 or first & second:
        return found
    if not shared:
        _gather(held, rows, found)
    elif rows.of(first) == rows.of(second):
        _sum(held, rows, found)
    return found


def _sum(held: Sequence[int], rows: Rows, found: dict[CollectiveKind, Matrices]) -> None:
    size, total, wanted = len(held), 0, rows.of(held[0])
    for matrix in held:
        if total & matrix or rows.of(matrix) != wanted:
            return
        total |= matrix
    found[CollectiveKind.ALLREDUCE] = (total,) * size
    found[CollectiveKind.REDUCE] = (total, *([0] * (size - 1)))
    if wanted.bit_count() % size == 0:
        found[CollectiveKind.REDUCESCATTER] = rows.parts(total, size)


def _gather(held: Sequence[int], rows: Rows, found: dict[CollectiveKind, Matrices]) -> None:
    total, taken, share = 0, 0, rows.of(held[0]).bit_count()
    for matrix in held:
        own = rows.of(matrix)
        if own & taken or own.bit_count() != share:
            return
        taken |= own
        total |= matrix
    found[CollectiveKind.ALLGATHER] = (total,) * len(held)
