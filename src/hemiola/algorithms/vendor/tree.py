"""NCCL's tree all-reduce: a chain through the devices of every host, and two complementary trees between the hosts.

``levels`` are (hosts, devices of a host). Half of the data goes through each tree. Sums run down the chain of a host to its head, and
from head to head up to the root; copies go back the same way. The head is another device for each of the ``chunks`` of a
half, as it is for each of NCCL's channels, so that all NICs are used. On one host only the chain is left.
"""

from __future__ import annotations

from hemiola.algorithms.shapes import nodes_by_local, require
from hemiola.algorithms.start_program import copy_if_alone, start_program
from hemiola.algorithms.trees import Tree, chain, complementary_trees, pass_down, sum_up
from hemiola.collectives import AllReduce
from hemiola.language.program import INPUT, Program


def vendor_tree(
    *, levels: tuple[int, ...], chunks: int = 1, instances: int = 1, protocol: str = "Simple"
) -> Program:
    """An all-reduce in place: chains inside of hosts, a double binary tree between them."""
    require("vendor_tree", nodes_by_local(ranks=levels[0] * levels[-1], levels=levels))
    hosts, local = levels
    halves = 2 if hosts > 1 else 1
    collective = AllReduce(hosts * local, halves * chunks, in_place=True)
    p = start_program("allreduce_chain_tree", collective, instances=instances, protocol=protocol)
    if copy_if_alone(p):
        return p
    for chunk in range(chunks):
        for half, between in enumerate(_between_hosts(hosts)):
            tree = _with_chains(between, local, head=chunk % local)
            with p.channel(half * chunks + chunk):  # every tree has threadblocks of its own
                top = sum_up(p, tree, half * chunks + chunk, keep=INPUT, keep_at_root=INPUT)
                pass_down(tree, top, keep=INPUT)
    return p


def _between_hosts(hosts: int) -> tuple[Tree, ...]:
    return complementary_trees(range(hosts)) if hosts > 1 else (Tree(0, ()),)


def _with_chains(between: Tree, local: int, head: int) -> Tree:
    """The tree of hosts with a chain below every head."""
    hosts = [between.root, *(child for child, _ in between.edges)]
    chains = [chain([host * local + (head + k) % local for k in range(local)]) for host in hosts]
    heads = tuple((child * local + head, parent * local + head) for child, parent in between.edges)
    return Tree(between.root * local + head, (*(edge for one in chains for edge in one.edges), *heads))
