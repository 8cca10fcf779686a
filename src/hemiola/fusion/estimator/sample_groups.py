"""sample_families: random convex groups of a graph, each with other groupings of the same operators."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from hemiola.fusion.graph import OpGraph
from hemiola.fusion.plan import Group

MAX_OPERATORS = 60
NUM_CUTS = 2
"""Further groupings of every sampled group: it is cut in two at so many places."""


@dataclass(frozen=True, slots=True)
class GroupFamily:
    """Several ways to group the same operators: as one group first, then in two."""

    groupings: tuple[tuple[Group, ...], ...]


class Reachability:
    """Which operators come before and after each operator, as bits of whole numbers."""

    def __init__(self, graph: OpGraph) -> None:
        num = len(graph.operators)
        self.before, self.after = [0] * num, [0] * num
        for one in range(num):
            for source in graph.predecessors[one]:
                self.before[one] |= self.before[source] | 1 << source
        for one in reversed(range(num)):
            for reader in graph.successors[one]:
                self.after[one] |= self.after[reader] | 1 << reader

    def convex(self, members: set[int]) -> set[int]:
        """The smallest convex group around some operators: with all that is on a path between two of them."""
        before = after = 0
        for one in members:
            before |= self.before[one]
            after |= self.after[one]
        return members | set(_bits(before & after))


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def sample_families(graph: OpGraph, num_families: int, seed: int) -> list[GroupFamily]:
    """As many families as asked for, the same for the same seed.

    A third are segments of the order in which operators run, a third grow over edges from one operator, and a third grow without
    kernels of their own, so that all of it is fused. Sizes are drawn from 2 to `MAX_OPERATORS`, small ones as often as large ones.
    """
    randomness, reach = random.Random(seed), Reachability(graph)
    families: list[GroupFamily] = []
    while len(families) < num_families:
        size = min(_draw_size(randomness), len(graph.operators))
        kind = len(families) % 3
        group = (
            _segment(graph, size, randomness)
            if kind == 0
            else _grow(graph, reach, size, randomness, kind == 2)
        )
        if 2 <= len(group) <= MAX_OPERATORS:
            families.append(_family(graph, group, randomness))
    return families


def _draw_size(randomness: random.Random) -> int:
    return round(math.exp(randomness.uniform(math.log(2), math.log(MAX_OPERATORS))))


def _segment(graph: OpGraph, size: int, randomness: random.Random) -> Group:
    begin = randomness.randrange(len(graph.operators) - size + 1)
    return tuple(range(begin, begin + size))


def _grow(
    graph: OpGraph, reach: Reachability, size: int, randomness: random.Random, fused_only: bool
) -> Group:
    """Add random neighbours and what convexity needs until the size is reached; stop before it is far exceeded."""
    members = {randomness.randrange(len(graph.operators))}
    while len(members) < size:
        frontier = sorted(
            neighbour
            for one in members
            for neighbour in (*graph.predecessors[one], *graph.successors[one])
            if neighbour not in members
            and not (fused_only and graph.operators[neighbour].work.is_kernel_of_its_own)
        )
        if not frontier:
            break
        grown = reach.convex(members | {randomness.choice(frontier)})
        if len(grown) > MAX_OPERATORS:
            break
        members = grown
    return tuple(sorted(members))


def _family(graph: OpGraph, group: Group, randomness: random.Random) -> GroupFamily:
    groupings: list[tuple[Group, ...]] = [(group,)]
    for _ in range(NUM_CUTS if len(group) > 2 else 1):
        order = _random_order(graph, group, randomness)
        cut = randomness.randrange(1, len(order))
        two = tuple(sorted(order[:cut])), tuple(sorted(order[cut:]))
        if two not in groupings:
            groupings.append(two)
    return GroupFamily(tuple(groupings))


def _random_order(graph: OpGraph, group: Group, randomness: random.Random) -> list[int]:
    """Some order in which the operators of a group can run; every beginning of it is convex."""
    inside = set(group)
    waiting = {one: len(inside.intersection(graph.predecessors[one])) for one in group}
    ready = [one for one in group if not waiting[one]]
    order: list[int] = []
    while ready:
        order.append(ready.pop(randomness.randrange(len(ready))))
        for reader in graph.successors[order[-1]]:
            if reader in inside:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)
    return order
