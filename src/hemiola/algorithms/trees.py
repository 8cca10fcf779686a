"""Trees: who adds whose data, and who passes it back.

The tree used here numbers its n nodes 1 .. n in order (left subtree, node, right subtree). A node's
lowest set bit is its height: odd numbers are leaves, and the root is the largest power of two. A parent
that lies beyond n is left out, and its left child takes its place. No node has more than two children and
none lies deeper than floor(log2 n).

          4
      2       6        n = 7; with n = 6, node 6 has one child, 5
    1   3   5   7

Two such trees over the same ranks complement each other when the second is numbered so that odd and even
change places (backwards when n is even, shifted by one when n is odd): a rank with children in one is a
leaf in the other. With half of the data each, no rank sends or receives more than in a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hemiola.language.chunk import Chunk
from hemiola.language.program import INPUT, Program


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of ranks."""

    root: int
    edges: tuple[tuple[int, int], ...]
    """(child, parent), a rank's children before the rank itself is a child."""

    def below(self, root: int) -> Tree:
        """The tree with ``root``, which is not in it, on top."""
        return Tree(root, (*self.edges, (self.root, root)))


def chain(members: Sequence[int]) -> Tree:
    """The first member is the root, every other hangs from the one before it."""
    return Tree(members[0], tuple(zip(members[:0:-1], members[-2::-1], strict=True)))


def complementary_trees(members: Sequence[int]) -> tuple[Tree, Tree]:
    """Two trees in which nobody has children in both."""
    second = members[::-1] if len(members) % 2 == 0 else [*members[-1:], *members[:-1]]
    return in_order_tree(members), in_order_tree(second)


def in_order_tree(members: Sequence[int]) -> Tree:
    """The tree of the picture above, node v being ``members[v - 1]``."""
    n = len(members)
    nodes = sorted(range(1, n + 1), key=lambda v: (v & -v, v))
    root = 1 << (n.bit_length() - 1)
    return Tree(
        members[root - 1], tuple((members[v - 1], members[_parent(v, n) - 1]) for v in nodes if v != root)
    )


def _parent(v: int, n: int) -> int:
    height = v & -v
    parent = (v - height) | (2 * height)
    return parent if parent <= n else v - height


def depth(members: int) -> int:
    """How many edges lie between the root of an in-order tree and its deepest leaf."""
    return members.bit_length() - 1


def sum_up(p: Program, tree: Tree, index: int, *, keep: str, keep_at_root: str) -> Chunk:
    """Add input chunk ``index`` of all ranks, from the leaves to the root; the reference is the sum.

    A leaf sends its input; a rank with children adds up in ``keep``, the root in ``keep_at_root``.
    """
    sums: dict[int, Chunk] = {}
    for child, parent in tree.edges:
        own = sums[parent] if parent in sums else p.chunk(parent, INPUT, index)
        target = keep_at_root if parent == tree.root else keep
        if own.buffer != target:
            own = own.copy(parent, target, index)
        sums[parent] = own.reduce(sums[child] if child in sums else p.chunk(child, INPUT, index))
    return sums[tree.root]


def pass_down(tree: Tree, top: Chunk, *, keep: str) -> None:
    """Copy the root's chunk ``top`` to all other ranks, each from its parent."""
    held = {tree.root: top}
    for child, parent in reversed(tree.edges):
        held[child] = held[parent].copy(child, keep, top.index)
