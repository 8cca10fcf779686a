"""All-pairs all-to-all: every rank sends every other its chunk directly, in one step.

In turn t rank r sends to rank r + t, so that nobody is sent to by all at once. Nothing is sent twice, but
between nodes the messages are many and small.

In place the chunks of a pair of ranks change places. One of the two first puts its chunk aside, takes the
other's in its place, and hands over the one put aside; which of the two does it is shared evenly.
"""

from __future__ import annotations

from collections.abc import Sequence

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllToAll
from hemiola.language.program import INPUT, OUTPUT, Program


def alltoall_allpairs(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Every rank sends every other its chunk directly."""
    collective = AllToAll(ranks, in_place=in_place)
    p = start_program("alltoall_allpairs", collective, instances=instances, protocol=protocol)
    exchange_directly(p, range(ranks))
    return p


def exchange_directly(p: Program, members: Sequence[int]) -> None:
    """All that ``members`` have for each other goes straight to where it belongs."""
    if p.collective.in_place:
        _swap(p, members)
        return
    n = len(members)
    for turn in range(n):
        for k, giver in enumerate(members):
            taker = members[(k + turn) % n]
            p.chunk(giver, INPUT, taker).copy(taker, OUTPUT, giver)


def _swap(p: Program, members: Sequence[int]) -> None:
    n = len(members)
    for turn in range(1, n // 2 + 1):
        for k in range(n // 2 if 2 * turn == n else n):
            one, other = members[k], members[(k + turn) % n]
            aside = p.chunk(one, INPUT, other).copy(one, "aside", turn - 1)
            p.chunk(other, INPUT, one).copy(one, INPUT, other)
            aside.copy(other, INPUT, one)


def cost(*, ranks: int) -> CostCard:
    """1 step, (n - 1) / n S per rank."""
    return CostCard.even(ranks=ranks, steps=min(ranks - 1, 1), sent=share_of_others(ranks))
