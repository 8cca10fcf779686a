"""Pairs: every member talks to every other directly, in one step.

Reduce-scatter: every owner receives its block from all the others and adds it up. All-gather: every owner
sends its block to all the others. In turn t member m deals with member m + t, so that at no time many
members send to the same one.
"""

from __future__ import annotations

from collections.abc import Sequence

from hemiola.algorithms.buffer_places import Block, GatherPlace, SumPlace
from hemiola.language.program import Program


def steps(members: int, whole: bool) -> int:
    """One, unless there is nobody to talk to, whether blocks are whole runs or not."""
    return min(members - 1, 1)


def reduce_scatter(p: Program, members: Sequence[int], blocks: Sequence[Block], place: SumPlace) -> None:
    """Leave the sum of ``blocks[k]`` on ``members[k]``."""
    n, read, target = len(members), place.read, place.final or place.keep
    parts = [(k, index, count) for k, block in enumerate(blocks) for index, count in block]
    sums = [p.chunk(members[k], read, index, count) for k, index, count in parts]
    if target != read:
        sums = [own.copy(own.rank, target, 0 if place.final else own.index) for own in sums]
    for turn in range(1, n):
        for slot, (k, index, count) in enumerate(parts):
            sums[slot] = sums[slot].reduce(p.chunk(members[(k + turn) % n], read, index, count))


def all_gather(p: Program, members: Sequence[int], blocks: Sequence[Block], place: GatherPlace) -> None:
    """Leave ``blocks[k]`` of ``members[k]`` on every member."""
    n, keep, own = len(members), place.keep, place.own
    parts = [
        (k, index, p.chunk(members[k], own or keep, 0 if own else index, count))
        for k, block in enumerate(blocks)
        for index, count in block
    ]
    for turn in range(1, n):
        for k, index, block in parts:
            block.copy(members[(k + turn) % n], keep, index)
