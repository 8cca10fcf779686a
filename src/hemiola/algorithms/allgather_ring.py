"""Ring all-gather: every rank hands on to its neighbour what it has just received.

Rank r's chunk goes once round the ring, and everybody keeps a copy. All links of the ring are busy in each
of the n - 1 steps, and a rank needs only two neighbours.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.exchanges import RING
from hemiola.algorithms.phases import Phase, all_gather
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllGather
from hemiola.language.program import Program


def allgather_ring(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Every chunk goes round the ring, and everybody keeps a copy."""
    collective = AllGather(ranks, in_place=in_place)
    p = start_program("allgather_ring", collective, instances=instances, protocol=protocol)
    blocks = [((rank, 1),) for rank in range(ranks)]
    all_gather(p, [Phase(RING, [range(ranks)], [blocks])])
    return p


def cost(*, ranks: int) -> CostCard:
    """n - 1 steps, (n - 1) S per rank."""
    return CostCard.even(ranks=ranks, steps=RING.steps(ranks, True), sent=Fraction(ranks - 1))
