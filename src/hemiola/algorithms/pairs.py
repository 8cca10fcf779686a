"""Pairs: every member talks to every other directly, in one step.

Reduce-scatter: every owner receives its block from all the others and adds it up. All-gather: every owner
sends its block to all the others. In turn t member m deals with member m + t, so that at no time many
members send to the same one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hemiola.algorithms.buffer_places import Block, GatherPlace, SumPlace
from hemiola.language.moves import copies, reductions
from hemiola.language.program import Program

Ints = npt.NDArray[np.int64]


def steps(members: int, whole: bool) -> int:
    """One, unless there is nobody to talk to, whether blocks are whole runs or not."""
    return min(members - 1, 1)


def reduce_scatter(p: Program, members: Sequence[int], blocks: Sequence[Block], place: SumPlace) -> None:
    """Leave the sum of ``blocks[k]`` on ``members[k]``."""
    owner, others, index, count = _runs(members, blocks)
    target, at = place.final or place.keep, index * (place.final is None)
    if target != place.read:
        p.record_moves(copies(p, (owner, place.read, index), (owner, target, at), count))
    p.record_moves(reductions(p, (others, place.read, index), (owner, target, at), count))


def all_gather(p: Program, members: Sequence[int], blocks: Sequence[Block], place: GatherPlace) -> None:
    """Leave ``blocks[k]`` of ``members[k]`` on every member."""
    owner, others, index, count = _runs(members, blocks)
    source, at = place.own or place.keep, index * (place.own is None)
    p.record_moves(copies(p, (owner, source, at), (others, place.keep, index), count))


def _runs(members: Sequence[int], blocks: Sequence[Block]) -> tuple[Ints, Ints, Ints, Ints]:
    """Of every run its owner, per turn the other member that it meets, its index and its count."""
    runs = [(k, index, count) for k, block in enumerate(blocks) for index, count in block]
    k, index, count = np.array(runs, np.int64).reshape(-1, 3).T
    ring, turns = np.asarray(members, np.int64), np.arange(1, len(members))
    return ring[k], ring[np.add.outer(turns, k) % len(ring)], index, count
