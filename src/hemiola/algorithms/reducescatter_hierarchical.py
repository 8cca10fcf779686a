"""Hierarchical reduce-scatter: each level carries only what the levels inside it have left.

Reduce-scatter inside the innermost groups, each rank taking the chunks of all ranks of its own place; then
among ranks of equal place across the next level; and so on to the outermost, where every rank is left with
its own chunk. ``inside`` is the exchange of all levels but the outermost, ``across`` that of the outermost:
ring, allpairs or halving.
"""

from __future__ import annotations

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.levels import exchanges_of, steps_over
from hemiola.algorithms.phases import phases_of, reduce_scatter, strided_inside_first
from hemiola.algorithms.shapes import any_levels_and_exchanges, require
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import ReduceScatter
from hemiola.language.program import Program


def reducescatter_hierarchical(
    *,
    ranks: int,
    levels: tuple[int, ...],
    inside: str = "ring",
    across: str = "ring",
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """Reduce-scatter from the innermost level outwards; any number of levels."""
    name = "reducescatter_hierarchical"
    require(name, any_levels_and_exchanges(ranks=ranks, levels=levels, inside=inside, across=across))
    p = start_program(name, ReduceScatter(ranks, in_place=in_place), instances=instances, protocol=protocol)
    reduce_scatter(p, phases_of(levels, exchanges_of(levels, inside, across), strided_inside_first)[::-1])
    return p


def cost(*, ranks: int, levels: tuple[int, ...], inside: str, across: str) -> CostCard:
    """The steps of every level's exchange, (n - 1) / n S per rank."""
    steps = steps_over(levels, inside, across, packed=False)
    return CostCard.even(ranks=ranks, steps=steps, sent=share_of_others(ranks))
