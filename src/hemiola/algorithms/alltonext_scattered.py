"""Scattered all-to-next: between nodes the data takes all NICs instead of one.

``levels`` are (nodes, local ranks per node). Inside a node every rank sends to the next directly. The last
rank of a node cuts its data into as many chunks as the node has ranks and spreads them over the node; each
rank sends its chunk through its own NIC to its equal in the next node; there they are gathered at the
first rank. The slow link carries 1 / local of the data per NIC, for two more steps on the fast ones.
"""

from __future__ import annotations

from fractions import Fraction

from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.shapes import nodes_by_local, require
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllToNext
from hemiola.language.program import INPUT, OUTPUT, Program


def alltonext_scattered(
    *,
    ranks: int,
    levels: tuple[int, ...],
    instances: int = 1,
    in_place: bool = False,
    protocol: str = "Simple",
) -> Program:
    """Between nodes, spread over the node's ranks, sent through all NICs, gathered at the destination."""
    require("alltonext_scattered", nodes_by_local(ranks=ranks, levels=levels))
    local = levels[1]
    collective = AllToNext(ranks, local).with_place(in_place=in_place)
    p = start_program("alltonext_scattered", collective, instances=instances, protocol=protocol)
    for rank in range(ranks - 1):
        if (rank + 1) % local:
            p.chunk(rank, INPUT, 0, local).copy(rank + 1, OUTPUT, 0)
        else:
            _cross(p, rank, local)
    return p


def _cross(p: Program, last: int, local: int) -> None:
    """From the last rank of a node to the first of the next, a chunk through each pair of equals."""
    first = last + 1
    for place in range(local):
        chunk = p.chunk(last, INPUT, place)
        if place < local - 1:
            chunk = chunk.copy(first - local + place, "leaving", 0)
        if place > 0:
            chunk = chunk.copy(first + place, "arriving", 0)
        chunk.copy(first, OUTPUT, place)


def cost(*, ranks: int, levels: tuple[int, ...]) -> CostCard:
    """At most 3 steps; a rank's S, and the chunks of S / L that it passes on for others, at most 2 S / L."""
    nodes, local = levels
    kinds = [
        (node > 0, node < nodes - 1, g) for node in {0, min(1, nodes - 1), nodes - 1} for g in range(local)
    ]
    sent = max(_chunks_sent(before, after, g, local) for before, after, g in kinds)
    received = max(_chunks_sent(after, before, local - 1 - g, local) for before, after, g in kinds)
    total = (ranks - nodes) * local + (nodes - 1) * (3 * local - 2)
    steps = min(local, 3) if nodes > 1 else min(local - 1, 1)
    return CostCard(steps, Fraction(sent, local), Fraction(received, local), Fraction(total, local))


def _chunks_sent(before: bool, after: bool, place: int, local: int) -> int:
    """Chunks that leave a place of a node with a node before or after it: its own, those it relays to the
    next node, and those it relays to its node's first rank. Seen backwards, the chunks that reach it."""
    own = local if place < local - 1 or after else 0
    return own + (after and place < local - 1) + (before and place > 0)
