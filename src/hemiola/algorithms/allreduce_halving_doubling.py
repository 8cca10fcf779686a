"""Halving-doubling all-reduce: the bytes of the ring in 2 ceil(log2 n) rounds, for any number of ranks.

Neighbours swap halves of the data and add, then ranks at distance 2 swap halves of what they answer for,
then at distance 4, and so on: most bytes travel the shortest way, and each message is one run of chunks.
n = 2^k m with m odd leaves, after k such swaps, groups of m ranks, which finish with a circulant
reduce-scatter in ceil(log2 m) rounds: no rank is folded in or left idle. The all-gather runs backwards.
"""

from __future__ import annotations

from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.exchanges import HALVING
from hemiola.algorithms.phases import all_reduce, packed_inside_first, phases_of
from hemiola.algorithms.powers_of_two import split_powers_of_two
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllReduce
from hemiola.language.program import Program


def allreduce_halving_doubling(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Recursive halving, then recursive doubling, nearest ranks first; any number of ranks."""
    collective = AllReduce(ranks, ranks, in_place=in_place)
    p = start_program("allreduce_halving_doubling", collective, instances=instances, protocol=protocol)
    levels = split_powers_of_two(ranks)
    all_reduce(p, phases_of(levels, [HALVING] * len(levels), packed_inside_first))
    return p


def cost(*, ranks: int) -> CostCard:
    """At most 2 ceil(log2 n) steps, 2 (n - 1) / n S per rank."""
    steps = 2 * sum(HALVING.steps(size, True) for size in split_powers_of_two(ranks))
    return CostCard.even(ranks=ranks, steps=steps, sent=2 * share_of_others(ranks))
