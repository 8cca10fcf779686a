"""Two-step all-to-all: chunks for the same place in other nodes are brought together before they travel.

``levels`` are (nodes, local ranks per node). First, inside each node, every rank hands what is meant for
place g of any other node to the node's own rank at place g. That rank then holds, for each other node, the
chunks of its whole node side by side, and sends them as one message to its equal there, where they are
already in order. The network sees the bytes of all-pairs in ``local`` times fewer and larger messages.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.alltoall_allpairs import exchange_directly
from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.shapes import nodes_by_local, require
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllToAll
from hemiola.language.program import INPUT, OUTPUT, Program


def alltoall_two_step(
    *,
    ranks: int,
    levels: tuple[int, ...],
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """Gather inside the node what goes to the same place, then one message per pair of nodes and place."""
    require("alltoall_two_step", nodes_by_local(ranks=ranks, levels=levels))
    collective = AllToAll(ranks, in_place=in_place)
    p = start_program("alltoall_two_step", collective, instances=instances, protocol=protocol)
    if 1 in levels:
        exchange_directly(p, range(ranks))
        return p
    nodes, local = levels
    for first in range(0, ranks, local):
        exchange_directly(p, range(first, first + local))
    _gather_by_place(p, nodes, local)
    for turn in range(1, nodes):
        for rank in range(ranks):
            gathered = p.chunk(rank, "gathered", (turn - 1) * local, local)
            gathered.copy((rank + turn * local) % ranks, OUTPUT, rank // local * local)
    return p


def _gather_by_place(p: Program, nodes: int, local: int) -> None:
    """Place g of a node gets all that its node has for place g of the node ``turn`` further on."""
    ranks = nodes * local
    for turn in range(1, nodes):
        for shift in range(local):
            for rank in range(ranks):
                first, place = rank // local * local, (rank + shift) % local
                chunk = p.chunk(rank, INPUT, (first + turn * local) % ranks + place)
                chunk.copy(first + place, "gathered", (turn - 1) * local + rank % local)


def cost(*, ranks: int, levels: tuple[int, ...]) -> CostCard:
    """2 steps; with N nodes of L ranks, (N - 1) / N S per rank across and (L - 1) / L S inside."""
    nodes, local = levels
    steps = min(nodes - 1, 1) + min(local - 1, 1)
    return CostCard.even(
        ranks=ranks, steps=steps, sent=Fraction(nodes - 1, nodes) + Fraction(local - 1, local)
    )
