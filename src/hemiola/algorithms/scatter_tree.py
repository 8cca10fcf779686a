"""Tree scatter: ranks pass on for each other, so that the root sends log2 n messages and not n - 1.

Every rank of a binomial tree receives the data of its whole subtree as one run, keeps the first chunk and
sends its children theirs. Data is sent several times on its way: for small data, where the number of
messages counts.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.binomial import cut_at_end, depth, links, longest_run, total_chunks
from hemiola.algorithms.cost import CostCard, share_of_others
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import Scatter
from hemiola.language.program import INPUT, OUTPUT, Program


def scatter_tree(
    *, ranks: int, root: int = 0, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """A binomial tree: every rank receives one run for its subtree and passes on its children's part."""
    collective = Scatter(ranks, root=root, in_place=in_place)
    p = start_program("scatter_tree", collective, instances=instances, protocol=protocol)
    if not in_place:
        p.chunk(root, INPUT, root).copy(root, OUTPUT, 0)
    for v, parent, length in reversed(list(links(ranks))):
        rank, held = (root + v) % ranks, "passing" if length > 1 else OUTPUT
        if parent:
            p.chunk((root + parent) % ranks, "passing", v - parent, length).copy(rank, held, 0)
        else:
            for offset, index, count in cut_at_end(rank, length, ranks):
                p.chunk(root, INPUT, index, count).copy(rank, held, offset)
        if length > 1:
            p.chunk(rank, held).copy(rank, OUTPUT, 0)
    return p


def cost(*, ranks: int) -> CostCard:
    """floor(log2 n) steps; the root sends (n - 1) / n S, and a rank receives up to S / 2."""
    received = Fraction(longest_run(ranks), ranks)
    return CostCard(depth(ranks), share_of_others(ranks), received, Fraction(total_chunks(ranks), ranks))
