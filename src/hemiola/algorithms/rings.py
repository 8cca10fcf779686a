"""Rings: every block travels from neighbour to neighbour; every link is in use in every step.

Reduce-scatter: block k sets out from member k + 1, and every member that it reaches adds its own
contribution, until the owner, member k, adds the last one. All-gather: block k sets out from its owner and
every member keeps a copy. All members send and receive one block in each of the n - 1 steps.

Blocks of several runs make a lap per run, one lap after another: one run of each block in flight keeps
every link busy. Compiled in this order, a member passes on what it receives before it sends its next run,
so that receiving and sending can be one step with two slots per connection.
"""

from __future__ import annotations

from collections.abc import Sequence

from hemiola.algorithms.buffer_places import Block, GatherPlace, SumPlace
from hemiola.language.program import Program


def steps(members: int, whole: bool) -> int:
    """n - 1, whether blocks are whole runs or not."""
    return members - 1


def reduce_scatter(p: Program, members: Sequence[int], blocks: Sequence[Block], place: SumPlace) -> None:
    """Leave the sum of ``blocks[k]`` on ``members[k]``."""
    n, read = len(members), place.read
    for lap in zip(*blocks, strict=True):
        moving = [p.chunk(members[(k + 1) % n], read, *run) for k, run in enumerate(lap)]
        for hop in range(2, n + 1):
            target, is_final = place.keep, False
            if hop == n and place.final is not None:
                target, is_final = place.final, True
            for k, (index, count) in enumerate(lap):
                rank = members[(k + hop) % n]
                own = p.chunk(rank, read, index, count)
                if target != read:
                    own = own.copy(rank, target, 0 if is_final else index)
                moving[k] = own.reduce(moving[k])


def all_gather(p: Program, members: Sequence[int], blocks: Sequence[Block], place: GatherPlace) -> None:
    """Leave ``blocks[k]`` of ``members[k]`` on every member."""
    n, keep, own = len(members), place.keep, place.own
    for lap in zip(*blocks, strict=True):
        moving = [
            p.chunk(members[k], own or keep, 0 if own else index, count)
            for k, (index, count) in enumerate(lap)
        ]
        for hop in range(1, n):
            for k, (index, _) in enumerate(lap):
                moving[k] = moving[k].copy(members[(k + hop) % n], keep, index)
