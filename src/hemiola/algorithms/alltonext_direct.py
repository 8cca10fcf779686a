"""Direct all-to-next: every rank sends its data to the next one."""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllToNext
from hemiola.language.program import INPUT, OUTPUT, Program


def alltonext_direct(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Every rank sends its data to the next one."""
    collective = AllToNext(ranks).with_place(in_place=in_place)
    p = start_program("alltonext_direct", collective, instances=instances, protocol=protocol)
    for rank in range(ranks - 1):
        p.chunk(rank, INPUT).copy(rank + 1, OUTPUT, 0)
    return p


def cost(*, ranks: int) -> CostCard:
    """1 step, S per rank."""
    busy = min(ranks - 1, 1)
    return CostCard(busy, Fraction(busy), Fraction(busy), Fraction(ranks - 1))
