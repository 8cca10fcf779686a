"""Tree reduce: two complementary trees of all ranks but the root, each for half of the data, end at the root.

Every rank with two children receives two halves, that is S, and is a leaf in the other tree, where it
receives nothing; the root receives the halves. So nobody receives more than S, in about log2 n steps.
``chunks`` is the number of pieces of each half: they follow each other up the trees. Sums on their way are
kept in scratch, so that the input of all ranks but an in-place root stays as it is.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import copy_if_alone, start_program
from hemiola.algorithms.trees import complementary_trees, depth, sum_up
from hemiola.collectives import Reduce
from hemiola.language.program import INPUT, OUTPUT, Program


def reduce_tree(
    *,
    ranks: int,
    root: int = 0,
    chunks: int = 4,
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """Two complementary trees below the root, each summing half of the data, in a pipeline."""
    collective = Reduce(ranks, 2 * chunks, root=root, in_place=in_place)
    p = start_program("reduce_tree", collective, instances=instances, protocol=protocol)
    if copy_if_alone(p):
        return p
    others = [(root + hop) % ranks for hop in range(1, ranks)]
    trees = [tree.below(root) for tree in complementary_trees(others)]
    for chunk in range(chunks):
        for half, tree in enumerate(trees):
            sum_up(p, tree, half * chunks + chunk, keep="sums", keep_at_root=INPUT if in_place else OUTPUT)
    return p


def cost(*, ranks: int) -> CostCard:
    """1 + floor(log2(n - 1)) steps, S per rank."""
    busy = Fraction(min(ranks - 1, 1))
    return CostCard(1 + depth(ranks - 1) if ranks > 1 else 0, busy, busy, Fraction(ranks - 1))
