"""Ring all-reduce: a ring reduce-scatter, then a ring all-gather.

The data is cut into n chunks. Chunk r starts at rank r and goes once round the ring, every rank adding its
own contribution; rank r - 1 completes it, and it goes round once more, every rank keeping a copy. All links
of the ring are busy all the time, and no algorithm moves fewer bytes; but the number of steps grows with n.
"""

from __future__ import annotations

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.exchanges import RING
from hemiola.algorithms.phases import Phase, all_reduce
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllReduce
from hemiola.language.program import Program


def allreduce_ring(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Every chunk goes round the ring twice: summed, then copied."""
    collective = AllReduce(ranks, ranks, in_place=in_place)
    p = start_program("allreduce_ring", collective, instances=instances, protocol=protocol)
    blocks = [(((rank + 1) % ranks, 1),) for rank in range(ranks)]
    all_reduce(p, [Phase(RING, [range(ranks)], [blocks])])
    return p


def cost(*, ranks: int) -> CostCard:
    """2 (n - 1) steps, 2 (n - 1) / n S per rank."""
    return CostCard.even(ranks=ranks, steps=2 * RING.steps(ranks, True), sent=2 * share_of_others(ranks))
