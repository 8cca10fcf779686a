"""The trees that sums climb and copies come down."""

from __future__ import annotations

from collections import Counter

import pytest

from hemiola.algorithms.binomial import cut_at_end, links
from hemiola.algorithms.circulants import rounds
from hemiola.algorithms.trees import Tree, chain, complementary_trees, depth, in_order_tree

SIZES = [*range(1, 70), 127, 128, 129, 1000]


@pytest.mark.parametrize("n", SIZES)
def test_an_in_order_tree_reaches_everybody_with_two_children_at_most(n: int) -> None:
    tree = in_order_tree(range(n))
    children = [child for child, _ in tree.edges]
    assert sorted([tree.root, *children]) == list(range(n))
    assert max(Counter(parent for _, parent in tree.edges).values(), default=0) <= 2
    assert max(depths(tree).values()) == depth(n)


@pytest.mark.parametrize("n", SIZES)
def test_edges_go_from_the_leaves_to_the_root(n: int) -> None:
    for tree in (*complementary_trees(range(n)), chain(range(n))):
        sent: set[int] = set()
        for child, parent in tree.edges:
            assert parent not in sent
            sent.add(child)


@pytest.mark.parametrize("n", SIZES)
def test_nobody_has_children_in_both_trees(n: int) -> None:
    first, second = ({parent for _, parent in tree.edges} for tree in complementary_trees(range(n)))
    assert not first & second


def test_the_tree_of_seven_is_the_one_in_the_picture() -> None:
    tree = in_order_tree(range(1, 8))
    assert tree == Tree(4, ((1, 2), (3, 2), (5, 6), (7, 6), (2, 4), (6, 4)))
    assert in_order_tree(range(1, 7)) == Tree(4, ((1, 2), (3, 2), (5, 6), (2, 4), (6, 4)))


def test_a_chain_ends_at_its_first_member() -> None:
    assert chain([5, 6, 7]) == Tree(5, ((7, 6), (6, 5)))
    assert chain([5]) == Tree(5, ())


@pytest.mark.parametrize("n", SIZES)
def test_binomial_runs_are_whole_subtrees(n: int) -> None:
    held = {v: [v] for v in range(n)}
    for v, parent, length in links(n):
        assert held[v] == list(range(v, v + length))
        held[parent] += held[v]
    assert held[0] == list(range(n))


def test_a_run_is_cut_where_the_ranks_end() -> None:
    assert cut_at_end(5, 4, 7) == [(0, 5, 2), (2, 0, 2)]
    assert cut_at_end(1, 4, 7) == [(0, 1, 4)]


@pytest.mark.parametrize("n", SIZES)
def test_circulant_rounds_are_few_and_send_every_block_once(n: int) -> None:
    assert len(rounds(n)) == (n - 1).bit_length()
    assert sum(size - skip for skip, size in rounds(n)) == n - 1


def depths(tree: Tree) -> dict[int, int]:
    found = {tree.root: 0}
    for child, parent in reversed(tree.edges):
        found[child] = found[parent] + 1
    return found
