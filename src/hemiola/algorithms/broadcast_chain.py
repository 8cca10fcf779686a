"""Chain broadcast: every rank passes on to the next what it receives, piece by piece.

The data is cut into ``chunks`` pieces that follow each other along the chain from the root, so that all
links are busy once the first piece has reached the end. Nobody sends more than S; but the first piece takes
n - 1 steps: for large data.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import copy_if_alone, start_program
from hemiola.algorithms.trees import chain, pass_down
from hemiola.collectives import Broadcast
from hemiola.language.program import INPUT, OUTPUT, Program


def broadcast_chain(
    *,
    ranks: int,
    root: int = 0,
    chunks: int = 8,
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """Pieces follow each other along a chain that begins at the root."""
    collective = Broadcast(ranks, chunks, root=root, in_place=in_place)
    p = start_program("broadcast_chain", collective, instances=instances, protocol=protocol)
    if copy_if_alone(p):
        return p
    if not in_place:
        p.chunk(root, INPUT, 0, chunks).copy(root, OUTPUT, 0)
    tree = chain([(root + hop) % ranks for hop in range(ranks)])
    for chunk in range(chunks):
        pass_down(tree, p.chunk(root, INPUT, chunk), keep=OUTPUT)
    return p


def cost(*, ranks: int) -> CostCard:
    """n - 1 steps, S per rank."""
    busy = Fraction(min(ranks - 1, 1))
    return CostCard(ranks - 1, busy, busy, Fraction(ranks - 1))
