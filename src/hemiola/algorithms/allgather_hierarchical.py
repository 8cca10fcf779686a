"""Hierarchical all-gather: every chunk crosses each outer level once per rank of the inner ones.

First the ranks of equal place in all nodes gather each other's chunks across the network, through all NICs
at once; then the ranks inside a node gather what the others have brought; and so on inwards for any number
of levels. ``inside`` is the exchange of all levels but the outermost, ``across`` that of the outermost: ring,
allpairs or halving.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.levels import exchanges_of, steps_over
from hemiola.algorithms.phases import all_gather, phases_of, strided_inside_first
from hemiola.algorithms.shapes import any_levels_and_exchanges, require
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllGather
from hemiola.language.program import Program


def allgather_hierarchical(
    *,
    ranks: int,
    levels: tuple[int, ...],
    inside: str = "ring",
    across: str = "ring",
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """All-gather from the outermost level inwards; any number of levels."""
    name = "allgather_hierarchical"
    require(name, any_levels_and_exchanges(ranks=ranks, levels=levels, inside=inside, across=across))
    p = start_program(name, AllGather(ranks, in_place=in_place), instances=instances, protocol=protocol)
    all_gather(p, phases_of(levels, exchanges_of(levels, inside, across), strided_inside_first))
    return p


def cost(*, ranks: int, levels: tuple[int, ...], inside: str, across: str) -> CostCard:
    """The steps of every level's exchange, (n - 1) S per rank."""
    steps = steps_over(levels, inside, across, packed=False)
    return CostCard.even(ranks=ranks, steps=steps, sent=Fraction(ranks - 1))
