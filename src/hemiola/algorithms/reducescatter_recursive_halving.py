"""Recursive-halving reduce-scatter: what a rank answers for halves in every round, for any number of ranks.

With n = 2^k m and m odd, m groups of 2^k neighbouring ranks first share the data with a circulant
reduce-scatter in ceil(log2 m) rounds; then ranks at half the distance swap halves of what they answer for,
add, and go on with half of that, down to neighbours. Each message is one run of chunks. Out of place the
sums on their way are kept in scratch, so that the input stays as it is.
"""

from __future__ import annotations

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.exchanges import HALVING
from hemiola.algorithms.phases import packed_outside_first, phases_of, reduce_scatter
from hemiola.algorithms.powers_of_two import split_powers_of_two
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import ReduceScatter
from hemiola.language.program import Program


def reducescatter_recursive_halving(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Ranks swap halves of what they answer for, farthest first; any number of ranks."""
    collective = ReduceScatter(ranks, in_place=in_place)
    p = start_program("reducescatter_recursive_halving", collective, instances=instances, protocol=protocol)
    levels = split_powers_of_two(ranks)
    reduce_scatter(p, phases_of(levels, [HALVING] * len(levels), packed_outside_first))
    return p


def cost(*, ranks: int) -> CostCard:
    """At most ceil(log2 n) steps, (n - 1) / n S per rank."""
    steps = sum(HALVING.steps(size, True) for size in split_powers_of_two(ranks))
    return CostCard.even(ranks=ranks, steps=steps, sent=share_of_others(ranks))
