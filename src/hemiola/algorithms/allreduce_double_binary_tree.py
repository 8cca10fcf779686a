"""Double-binary-tree all-reduce: two complementary trees, each for half of the data.

In each tree the sums climb from the leaves to the root and come back as copies. A rank with two children
sends three times its half there (one up, two down), but is a leaf in the other tree and sends one half, so
2 S is the most that anybody sends, in 2 floor(log2 n) steps. ``chunks`` is the number of pieces of each
half: while a piece climbs, the one before it already comes down.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import copy_if_alone, start_program
from hemiola.algorithms.trees import complementary_trees, depth, pass_down, sum_up
from hemiola.collectives import AllReduce
from hemiola.language.program import INPUT, OUTPUT, Program


def allreduce_double_binary_tree(
    *, ranks: int, chunks: int = 4, instances: int = 1, in_place: bool = False, protocol: str = "Simple"
) -> Program:
    """Two complementary trees with half of the data each: sums climb, copies come back, in a pipeline."""
    collective = AllReduce(ranks, 2 * chunks, in_place=in_place)
    p = start_program("allreduce_double_binary_tree", collective, instances=instances, protocol=protocol)
    if copy_if_alone(p):
        return p
    keep = INPUT if in_place else OUTPUT
    trees = complementary_trees(range(ranks))
    for chunk in range(chunks):
        for half, tree in enumerate(trees):
            top = sum_up(p, tree, half * chunks + chunk, keep=keep, keep_at_root=keep)
            pass_down(tree, top, keep=keep)
    return p


def cost(*, ranks: int) -> CostCard:
    """2 floor(log2 n) steps, 2 S per rank (less below 4 ranks)."""
    sent = {1: Fraction(0), 2: Fraction(1), 3: Fraction(3, 2)}.get(ranks, Fraction(2))
    return CostCard(2 * depth(ranks), sent, sent, Fraction(2 * (ranks - 1)))
