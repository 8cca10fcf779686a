"""Circulants: recursive halving and doubling for any number of members, in ceil(log2 n) rounds.

Look at the blocks from a member's own one on, round the end: member m's view is R[i] = block m + i.
Reduce-scatter: a member that still answers for R[0 .. size) keeps the first ``skip = ceil(size / 2)`` and
sends the rest to member m + skip, for whom they are R[0 .. size - skip). After the last round R[0], its
own block, is summed. All-gather runs the rounds backwards: a member that has R[0 .. skip) sends
R[0 .. size - skip) to member m - skip, for whom they are R[skip .. size).

Worked example, n = 5: (skip, size) is (3, 5), (2, 3), (1, 2). In the first round member 0 sends blocks 3
and 4 to member 3 and adds what member 2 sends it, blocks 0 and 1; each member sends 2 + 1 + 1 = n - 1
blocks. For n = 2 it is a plain swap, and n a power of two takes log2 n of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hemiola.algorithms.buffer_places import Block, GatherPlace, SumPlace, merge_runs
from hemiola.language.program import Program


def rounds(members: int) -> list[tuple[int, int]]:
    """(skip, size) of every round of the reduce-scatter."""
    found, size = [], members
    while size > 1:
        skip = (size + 1) // 2
        found.append((skip, size))
        size = skip
    return found


def steps(members: int, whole: bool) -> int:
    """At most one per round; fewer where a round sends only what none of the rounds before it brought.

    ``whole`` says that the blocks of a round touch and travel as one message, which waits for all of them.
    """
    depth = [0] * members
    for skip, size in rounds(members):
        leaving = depth[skip:size]
        brought = [max(leaving)] * len(leaving) if whole else leaving
        depth[: size - skip] = [max(there, 1 + new) for there, new in zip(depth, brought, strict=False)]
    return depth[0]


def reduce_scatter(p: Program, members: Sequence[int], blocks: Sequence[Block], place: SumPlace) -> None:
    """Leave the sum of ``blocks[k]`` on ``members[k]``."""
    n, read = len(members), place.read
    for skip, size in rounds(n):
        target, is_final = place.keep, False
        if skip == 1 and place.final is not None:
            target, is_final = place.final, True
        for k, rank in enumerate(members):
            sender = members[(k - skip) % n]
            for index, count in merge_runs(blocks, k, size - skip):
                own = p.chunk(rank, read, index, count)
                if target != read:
                    own = own.copy(rank, target, 0 if is_final else index)
                own.reduce(p.chunk(sender, read, index, count))
        if read != place.keep:
            _keep_the_untouched(p, members, blocks, place, range(size - skip, skip))
            read = place.keep


def _keep_the_untouched(
    p: Program, members: Sequence[int], blocks: Sequence[Block], place: SumPlace, untouched: range
) -> None:
    """With an odd size the last block kept was added to nowhere; a later round sends it from ``keep``."""
    for offset in untouched:
        for k, rank in enumerate(members):
            for index, count in merge_runs(blocks, k + offset, 1):
                p.chunk(rank, place.read, index, count).copy(rank, place.keep, index)


def all_gather(p: Program, members: Sequence[int], blocks: Sequence[Block], place: GatherPlace) -> None:
    """Leave ``blocks[k]`` of ``members[k]`` on every member."""
    n, keep = len(members), place.keep
    for skip, size in reversed(rounds(n)):
        own = place.own if skip == 1 else None
        for k, rank in enumerate(members):
            receiver = members[(k - skip) % n]
            for index, count in merge_runs(blocks, k, size - skip):
                p.chunk(rank, own or keep, 0 if own else index, count).copy(receiver, keep, index)
