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

import numpy as np
import numpy.typing as npt

from hemiola.algorithms.buffer_places import Block, GatherPlace, SumPlace
from hemiola.language.moves import copies, in_turn, reductions
from hemiola.language.program import Program

Ints = npt.NDArray[np.int64]


def steps(members: int, whole: bool) -> int:
    """n - 1, whether blocks are whole runs or not."""
    return members - 1


def reduce_scatter(p: Program, members: Sequence[int], blocks: Sequence[Block], place: SumPlace) -> None:
    """Leave the sum of ``blocks[k]`` on ``members[k]``."""
    n, ring = len(members), np.asarray(members, np.int64)
    if n == 1:
        return
    here, before = _hops(ring, 2, n + 1), _hops(ring, 1, n)
    # A row per hop and a column per block. What a hop adds to is where the next one finds the block.
    read, keep = p.buffer_number(place.read), p.buffer_number(place.keep)
    target = np.full((n - 1, 1), keep)
    if place.final is not None:
        target[-1] = p.buffer_number(place.final)
    source = np.concatenate([[[read]], target[:-1]])
    for lap in zip(*blocks, strict=True):
        index, count = np.array(lap).T
        at = np.tile(index, (n - 1, 1))
        if place.final is not None:
            at[-1] = 0
        sums = reductions(p, (before, source, index), (here, target, at), count)
        if (target != read).any():  # a copy to itself is none
            sums = in_turn(copies(p, (here, place.read, index), (here, target, at), count), sums)
        p.record_moves(sums)


def all_gather(p: Program, members: Sequence[int], blocks: Sequence[Block], place: GatherPlace) -> None:
    """Leave ``blocks[k]`` of ``members[k]`` on every member."""
    n, ring = len(members), np.asarray(members, np.int64)
    here, before = _hops(ring, 1, n), _hops(ring, 0, n - 1)
    for lap in zip(*blocks, strict=True):
        index, count = np.array(lap).T
        source, at = np.full((n - 1, 1), p.buffer_number(place.keep)), np.tile(index, (n - 1, 1))
        if place.own is not None:
            source[:1], at[:1] = p.buffer_number(place.own), 0
        p.record_moves(copies(p, (before, source, at), (here, place.keep, index), count))


def _hops(ring: Ints, first: int, end: int) -> Ints:
    """Per hop and block, the rank that block k has reached: member k + hop."""
    reached: Ints = ring[np.add.outer(np.arange(first, end), np.arange(len(ring))) % len(ring)]
    return reached
