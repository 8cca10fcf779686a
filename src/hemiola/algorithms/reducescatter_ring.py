"""Ring reduce-scatter: every chunk collects the contributions on its way round the ring.

Chunk r sets out from rank r + 1, every rank that it reaches adds its own contribution, and rank r adds the
last one. All links of the ring are busy in each of the n - 1 steps, and a rank needs only two neighbours.
Out of place the sums on their way are kept in scratch, so that the input stays as it is.
"""

from __future__ import annotations

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.exchanges import RING
from hemiola.algorithms.phases import Phase, reduce_scatter
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import ReduceScatter
from hemiola.language.program import Program


def reducescatter_ring(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Every chunk goes round the ring, summed at each rank, and ends at its owner."""
    collective = ReduceScatter(ranks, in_place=in_place)
    p = start_program("reducescatter_ring", collective, instances=instances, protocol=protocol)
    blocks = [((rank, 1),) for rank in range(ranks)]
    reduce_scatter(p, [Phase(RING, [range(ranks)], [blocks])])
    return p


def cost(*, ranks: int) -> CostCard:
    """n - 1 steps, (n - 1) / n S per rank."""
    return CostCard.even(ranks=ranks, steps=RING.steps(ranks, True), sent=share_of_others(ranks))
