"""All-pairs all-gather: every rank sends its chunk to every other, in one step.

In turn t rank r sends to rank r + t, so that nobody is sent to by all at once. It has the bytes of the ring
and n - 1 connections per rank: for one node whose ranks are all linked to each other.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.exchanges import ALL_PAIRS
from hemiola.algorithms.phases import Phase, all_gather
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllGather
from hemiola.language.program import Program


def allgather_allpairs(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Every rank sends its chunk to every other directly."""
    collective = AllGather(ranks, in_place=in_place)
    p = start_program("allgather_allpairs", collective, instances=instances, protocol=protocol)
    blocks = [((rank, 1),) for rank in range(ranks)]
    all_gather(p, [Phase(ALL_PAIRS, [range(ranks)], [blocks])])
    return p


def cost(*, ranks: int) -> CostCard:
    """1 step, (n - 1) S per rank."""
    return CostCard.even(ranks=ranks, steps=ALL_PAIRS.steps(ranks, True), sent=Fraction(ranks - 1))
