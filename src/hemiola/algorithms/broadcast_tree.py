"""Tree broadcast: the root feeds two complementary trees of all other ranks, each with half of the data.

Every rank with two children passes on two halves, that is S, and is a leaf in the other tree, where it
passes on nothing; the root sends a half to each tree. So nobody sends more than S, in about log2 n steps.
``chunks`` is the number of pieces of each half: they follow each other down the trees.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.start_program import copy_if_alone, start_program
from hemiola.algorithms.trees import complementary_trees, depth, pass_down
from hemiola.collectives import Broadcast
from hemiola.language.program import INPUT, OUTPUT, Program


def broadcast_tree(
    *,
    ranks: int,
    root: int = 0,
    chunks: int = 4,
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """Two complementary trees below the root, with half of the data each, in a pipeline."""
    collective = Broadcast(ranks, 2 * chunks, root=root, in_place=in_place)
    p = start_program("broadcast_tree", collective, instances=instances, protocol=protocol)
    if copy_if_alone(p):
        return p
    if not in_place:
        p.chunk(root, INPUT, 0, 2 * chunks).copy(root, OUTPUT, 0)
    others = [(root + hop) % ranks for hop in range(1, ranks)]
    trees = [tree.below(root) for tree in complementary_trees(others)]
    for chunk in range(chunks):
        for half, tree in enumerate(trees):
            pass_down(tree, p.chunk(root, INPUT, half * chunks + chunk), keep=OUTPUT)
    return p


def cost(*, ranks: int) -> CostCard:
    """1 + floor(log2(n - 1)) steps, S per rank."""
    busy = Fraction(min(ranks - 1, 1))
    return CostCard(1 + depth(ranks - 1) if ranks > 1 else 0, busy, busy, Fraction(ranks - 1))
