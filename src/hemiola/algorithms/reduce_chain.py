"""Chain reduce: every rank adds its data to what it receives and passes it on, piece by piece.

The data is cut into ``chunks`` pieces that follow each other along the chain to the root, so that all
links are busy once the first piece has arrived. Nobody sends more than S; but a piece takes n - 1 steps: for
large data. Sums on their way are kept in scratch, so that the input of all ranks but an in-place root stays
as it is.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import copy_if_alone, start_program
from hemiola.algorithms.trees import chain, sum_up
from hemiola.collectives import Reduce
from hemiola.language.program import INPUT, OUTPUT, Program


def reduce_chain(
    *,
    ranks: int,
    root: int = 0,
    chunks: int = 8,
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """Pieces follow each other along a chain that ends at the root, summed on the way."""
    collective = Reduce(ranks, chunks, root=root, in_place=in_place)
    p = start_program("reduce_chain", collective, instances=instances, protocol=protocol)
    if copy_if_alone(p):
        return p
    tree = chain([(root + hop) % ranks for hop in range(ranks)])
    for chunk in range(chunks):
        sum_up(p, tree, chunk, keep="sums", keep_at_root=INPUT if in_place else OUTPUT)
    return p


def cost(*, ranks: int) -> CostCard:
    """n - 1 steps, S per rank."""
    busy = Fraction(min(ranks - 1, 1))
    return CostCard(ranks - 1, busy, busy, Fraction(ranks - 1))
