"""Three-step all-to-all: one single message from each node to each other node.

``levels`` are (nodes, local ranks per node). For every other node, a node has one rank as its gate: the
node ``turn`` further on is served by place ``turn - 1``, round the node, at both ends, so that the gates
are shared evenly. First, inside the node, all ranks bring the gate what they have for that node; then the
gate sends all of it as one message to the gate there; then that gate spreads it inside its node. It sends
more bytes than two-step, and the fewest messages across the network: for many nodes and small chunks.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.alltoall_allpairs import cost as cost_of_all_pairs
from hemiola.algorithms.alltoall_allpairs import exchange_directly
from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.shapes import nodes_by_local, require
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllToAll
from hemiola.language.program import INPUT, OUTPUT, Program


def alltoall_three_step(
    *,
    ranks: int,
    levels: tuple[int, ...],
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """Gather at a gate, one message per pair of nodes, spread from the gate there."""
    require("alltoall_three_step", nodes_by_local(ranks=ranks, levels=levels))
    collective = AllToAll(ranks, in_place=in_place)
    p = start_program("alltoall_three_step", collective, instances=instances, protocol=protocol)
    if 1 in levels:
        exchange_directly(p, range(ranks))
        return p
    nodes, local = levels
    for first in range(0, ranks, local):
        exchange_directly(p, range(first, first + local))
    _bring_to_gates(p, nodes, local)
    _send_between_gates(p, nodes, local)
    _spread_from_gates(p, nodes, local)
    return p


def _gate(turn: int, local: int) -> tuple[int, int]:
    """The place of the gate, and where the chunks of that pair of nodes begin in its scratch buffers."""
    return (turn - 1) % local, (turn - 1) // local * local * local


def _bring_to_gates(p: Program, nodes: int, local: int) -> None:
    for turn in range(1, nodes):
        place, begin = _gate(turn, local)
        for node in range(nodes):
            there = (node + turn) % nodes
            for shift in range(local):
                giver = (place + shift) % local
                chunks = p.chunk(node * local + giver, INPUT, there * local, local)
                chunks.copy(node * local + place, "leaving", begin + giver * local)


def _send_between_gates(p: Program, nodes: int, local: int) -> None:
    for turn in range(1, nodes):
        place, begin = _gate(turn, local)
        for node in range(nodes):
            there = (node + turn) % nodes
            chunks = p.chunk(node * local + place, "leaving", begin, local * local)
            chunks.copy(there * local + place, "arriving", begin)


def _spread_from_gates(p: Program, nodes: int, local: int) -> None:
    for turn in range(1, nodes):
        place, begin = _gate(turn, local)
        for node in range(nodes):
            there = (node + turn) % nodes
            for shift in range(local):
                taker = (place + shift) % local
                for giver in range(local):
                    chunk = p.chunk(there * local + place, "arriving", begin + giver * local + taker)
                    chunk.copy(there * local + taker, OUTPUT, node * local + giver)


def cost(*, ranks: int, levels: tuple[int, ...]) -> CostCard:
    """3 steps; with N nodes of L ranks and G = ceil((N - 1) / L) gates on the busiest rank, that rank sends
    ((N - G) L - 1 + G (2 L - 1) L) / n S, everybody together N (N - 1) (3 L - 2) L + n (L - 1) n-th parts."""
    if 1 in levels:
        return cost_of_all_pairs(ranks=ranks)
    nodes, local = levels
    gates = -(-(nodes - 1) // local)
    busiest = (nodes - gates) * local - 1 + gates * (2 * local - 1) * local
    total = nodes * (nodes - 1) * (3 * local - 2) * local + ranks * (local - 1)
    return CostCard(3, Fraction(busiest, ranks), Fraction(busiest, ranks), Fraction(total, ranks))
