"""Direct scatter: the root sends every rank its part, in one step."""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import Scatter
from hemiola.language.program import INPUT, OUTPUT, Program


def scatter_direct(
    *, ranks: int, root: int = 0, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """The root sends every rank its part directly."""
    collective = Scatter(ranks, root=root, in_place=in_place)
    p = start_program("scatter_direct", collective, instances=instances, protocol=protocol)
    for hop in range(1 if in_place else 0, ranks):
        rank = (root + hop) % ranks
        p.chunk(root, INPUT, rank).copy(rank, OUTPUT, 0)
    return p


def cost(*, ranks: int) -> CostCard:
    """1 step; the root sends (n - 1) / n S, and every other rank receives S / n."""
    busy = min(ranks - 1, 1)
    sent = share_of_others(ranks)
    return CostCard(busy, sent, Fraction(busy, ranks), sent)
