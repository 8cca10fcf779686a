"""All-pairs reduce-scatter: every rank receives its chunk from every other, in one step.

Rank r adds up chunk r of all ranks, beginning with its own, then that of rank r + 1, and so on, so that the
owners do not all ask the same rank at once. It has the bytes of the ring and n - 1 connections per rank: for
one node whose ranks are all linked to each other.
"""

from __future__ import annotations

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.exchanges import ALL_PAIRS
from hemiola.algorithms.phases import Phase, reduce_scatter
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import ReduceScatter
from hemiola.language.program import Program


def reducescatter_allpairs(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Every rank collects its own chunk from all the others and adds it up."""
    collective = ReduceScatter(ranks, in_place=in_place)
    p = start_program("reducescatter_allpairs", collective, instances=instances, protocol=protocol)
    blocks = [((rank, 1),) for rank in range(ranks)]
    reduce_scatter(p, [Phase(ALL_PAIRS, [range(ranks)], [blocks])])
    return p


def cost(*, ranks: int) -> CostCard:
    """1 step, (n - 1) / n S per rank."""
    return CostCard.even(ranks=ranks, steps=ALL_PAIRS.steps(ranks, True), sent=share_of_others(ranks))
