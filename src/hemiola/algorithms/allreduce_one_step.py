"""One-step all-reduce: everybody sends everything to everybody, and adds up alone.

A single step is the shortest there is, and n - 1 times the data the most that can be sent: for sizes so
small that only the number of steps counts. All ranks add the contributions in the same order, rank 0's
first, so that floating results are the same everywhere to the last bit. The messages come over connections
of their own and do not wait for each other; only the additions have an order.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import copy_if_alone, start_program
from hemiola.collectives import AllReduce
from hemiola.language.program import INPUT, OUTPUT, Program


def allreduce_one_step(
    *, ranks: int, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Everybody sends everything to everybody and adds up alone; for tiny sizes."""
    collective = AllReduce(ranks, in_place=in_place)
    p = start_program("allreduce_one_step", collective, instances=instances, protocol=protocol)
    if copy_if_alone(p):
        return p
    keep = "sums" if in_place else OUTPUT
    sums = [p.chunk(0, INPUT).copy(rank, keep, 0) for rank in range(ranks)]
    for sender in range(1, ranks):
        own = p.chunk(sender, INPUT)
        for turn in range(ranks):
            rank = (sender + turn) % ranks
            sums[rank] = sums[rank].reduce(own)
    if in_place:
        for rank in range(ranks):
            sums[rank].copy(rank, INPUT, 0)
    return p


def cost(*, ranks: int) -> CostCard:
    """1 step, (n - 1) S per rank."""
    return CostCard.even(ranks=ranks, steps=min(ranks - 1, 1), sent=Fraction(ranks - 1))
