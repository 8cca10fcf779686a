"""Direct gather: every rank sends its data to the root, in one step."""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import Gather
from hemiola.language.program import INPUT, OUTPUT, Program


def gather_direct(
    *, ranks: int, root: int = 0, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Every rank sends its data to the root directly."""
    collective = Gather(ranks, root=root, in_place=in_place)
    p = start_program("gather_direct", collective, instances=instances, protocol=protocol)
    for hop in range(1 if in_place else 0, ranks):
        rank = (root + hop) % ranks
        p.chunk(rank, INPUT).copy(root, OUTPUT, rank)
    return p


def cost(*, ranks: int) -> CostCard:
    """1 step; S per rank, and the root receives (n - 1) S."""
    busy = min(ranks - 1, 1)
    return CostCard(busy, Fraction(busy), Fraction(ranks - 1), Fraction(ranks - 1))
