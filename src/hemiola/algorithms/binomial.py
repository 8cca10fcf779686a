"""Binomial: a tree in which every rank answers for a run of ranks; its messages double on the way.

Ranks are counted from the root on, round the end: v = 0 is the root. Every other v hangs from v without
its lowest set bit, and its subtree is the run of that bit's length that begins with v (shorter at the end).

Worked example, n = 6: 1, 2 and 4 hang from 0; 3 hangs from 2 and 5 from 4; 2 answers for 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator


def links(ranks: int) -> Iterator[tuple[int, int, int]]:
    """(v, parent, length of v's run), children before their parents."""
    bit = 1
    while bit < ranks:
        for v in range(bit, ranks, 2 * bit):
            yield v, v - bit, min(bit, ranks - v)
        bit *= 2


def cut_at_end(first: int, length: int, ranks: int) -> list[tuple[int, int, int]]:
    """A run of ranks that begins with ``first`` and may go round the end, as (offset in the run, rank,
    length) of each part that does not."""
    before_end = min(length, ranks - first)
    parts = [(0, first, before_end), (before_end, 0, length - before_end)]
    return [part for part in parts if part[2]]


def depth(ranks: int) -> int:
    """The most set bits that a number below ``ranks`` has: floor(log2 n)."""
    return ranks.bit_length() - 1


def longest_run(ranks: int) -> int:
    """The largest subtree below the root."""
    return max((length for _, _, length in links(ranks)), default=0)


def total_chunks(ranks: int) -> int:
    """Chunks over all links: each rank's chunk takes as many as its number has set bits."""
    return sum(v.bit_count() for v in range(ranks))
