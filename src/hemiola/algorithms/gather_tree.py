"""Tree gather: ranks gather for each other, so that the root receives log2 n messages and not n - 1.

Every rank of a binomial tree puts its own data in front of what its children bring and sends it on as one
run. Data is sent several times on its way: for small data, where the number of messages counts.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.binomial import cut_at_end, depth, links, longest_run, total_chunks
from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import Gather
from hemiola.language.program import INPUT, OUTPUT, Program


def gather_tree(
    *, ranks: int, root: int = 0, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """A binomial tree: every rank sends on one run of its own and its children's data."""
    collective = Gather(ranks, root=root, in_place=in_place)
    p = start_program("gather_tree", collective, instances=instances, protocol=protocol)
    if not in_place:
        p.chunk(root, INPUT).copy(root, OUTPUT, root)
    for v, _, length in links(ranks):
        if length > 1:
            rank = (root + v) % ranks
            p.chunk(rank, INPUT).copy(rank, "gathered", 0)
    for v, parent, length in links(ranks):
        rank, held = (root + v) % ranks, "gathered" if length > 1 else INPUT
        if parent:
            p.chunk(rank, held, 0, length).copy((root + parent) % ranks, "gathered", v - parent)
            continue
        for offset, index, count in cut_at_end(rank, length, ranks):
            p.chunk(rank, held, offset, count).copy(root, OUTPUT, index)
    return p


def cost(*, ranks: int) -> CostCard:
    """floor(log2 n) steps; up to n / 2 S per rank, and the root receives (n - 1) S."""
    return CostCard(
        depth(ranks), Fraction(longest_run(ranks)), Fraction(ranks - 1), Fraction(total_chunks(ranks))
    )
