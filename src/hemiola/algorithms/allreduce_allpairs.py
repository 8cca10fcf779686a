"""All-pairs all-reduce: two steps, every rank talking to every other directly.

The data is cut into n chunks. In the first step rank r receives chunk r from all the others and adds it
up; in the second it sends the sum to all. The bytes are those of the ring, in 2 steps instead of 2 (n - 1),
at the price of n - 1 connections per rank: for one node whose ranks are all linked to each other.
"""

from __future__ import annotations

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.exchanges import ALL_PAIRS
from hemiola.algorithms.phases import Phase, all_reduce
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllReduce
from hemiola.language.program import Program


def allreduce_allpairs(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Every rank collects its own chunk from all, adds it up and sends the sum to all."""
    collective = AllReduce(ranks, ranks, in_place=in_place)
    p = start_program("allreduce_allpairs", collective, instances=instances, protocol=protocol)
    blocks = [((rank, 1),) for rank in range(ranks)]
    all_reduce(p, [Phase(ALL_PAIRS, [range(ranks)], [blocks])])
    return p


def cost(*, ranks: int) -> CostCard:
    """2 steps, 2 (n - 1) / n S per rank."""
    return CostCard.even(ranks=ranks, steps=2 * ALL_PAIRS.steps(ranks, True), sent=2 * share_of_others(ranks))
