"""Hierarchical all-reduce: each level of the machine carries only what the levels inside it have left.

Reduce-scatter inside the innermost groups; then among ranks of equal place across the next level, each on
its own part; and so on to the outermost level, where the part is smallest; then all-gather back the same
way. On 128 nodes of 8 ranks, only an eighth of the data per rank crosses the network, through all NICs at
once. ``inside`` is the exchange of all levels but the outermost, ``across`` that of the outermost: ring,
allpairs or halving.
"""

from __future__ import annotations

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.levels import exchanges_of, steps_over
from hemiola.algorithms.phases import all_reduce, packed_inside_first, phases_of
from hemiola.algorithms.shapes import any_levels_and_exchanges, require
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllReduce
from hemiola.language.program import Program


def allreduce_hierarchical(
    *,
    ranks: int,
    levels: tuple[int, ...],
    inside: str = "ring",
    across: str = "ring",
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """Reduce-scatter from the innermost level outwards, all-gather back; any number of levels."""
    name = "allreduce_hierarchical"
    require(name, any_levels_and_exchanges(ranks=ranks, levels=levels, inside=inside, across=across))
    p = start_program(
        name, AllReduce(ranks, ranks, in_place=in_place), instances=instances, protocol=protocol
    )
    all_reduce(p, phases_of(levels, exchanges_of(levels, inside, across), packed_inside_first))
    return p


def cost(*, ranks: int, levels: tuple[int, ...], inside: str, across: str) -> CostCard:
    """Twice the steps of every level's exchange, 2 (n - 1) / n S per rank."""
    steps = 2 * steps_over(levels, inside, across, packed=True)
    return CostCard.even(ranks=ranks, steps=steps, sent=2 * share_of_others(ranks))
