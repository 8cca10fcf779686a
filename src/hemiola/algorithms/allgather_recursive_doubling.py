"""Recursive-doubling all-gather: what a rank has doubles in every round, for any number of ranks.

Neighbours swap their chunks, then ranks at distance 2 swap the two chunks they have, then at distance 4
four, and so on: each message is one run of chunks. n = 2^k m with m odd leaves, after k such swaps, groups
of m ranks, which finish with a circulant all-gather in ceil(log2 m) rounds. No scratch is needed: every
chunk arrives where it stays.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.exchanges import HALVING
from hemiola.algorithms.phases import all_gather, packed_outside_first, phases_of
from hemiola.algorithms.powers_of_two import split_powers_of_two
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllGather
from hemiola.language.program import Program


def allgather_recursive_doubling(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Ranks swap all they have at distance 1, 2, 4, ...; any number of ranks."""
    collective = AllGather(ranks, in_place=in_place)
    p = start_program("allgather_recursive_doubling", collective, instances=instances, protocol=protocol)
    levels = split_powers_of_two(ranks)
    all_gather(p, phases_of(levels, [HALVING] * len(levels), packed_outside_first)[::-1])
    return p


def cost(*, ranks: int) -> CostCard:
    """At most ceil(log2 n) steps, (n - 1) S per rank."""
    steps = sum(HALVING.steps(size, True) for size in split_powers_of_two(ranks))
    return CostCard.even(ranks=ranks, steps=steps, sent=Fraction(ranks - 1))
