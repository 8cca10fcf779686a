"""Buffer places: which chunks an exchange works on, and in which buffers it reads and keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Run = tuple[int, int]
"""Neighbouring chunks: (index of the first, count)."""

Block = Sequence[Run]
"""What one member of a group owns; runs that touch are written as one."""


@dataclass(frozen=True, slots=True)
class SumPlace:
    """Where a reduce-scatter finds and leaves its sums; an index is the same in ``read`` and in ``keep``."""

    read: str
    """The buffer of a rank's own contributions. It is not written unless it is also ``keep``."""
    keep: str
    """The buffer of partial sums."""
    final: str | None = None
    """The buffer from whose start on an owner's sum lies at the end; None leaves it in ``keep``. With it,
    every block is one run."""


@dataclass(frozen=True, slots=True)
class GatherPlace:
    """Where an all-gather finds and leaves its blocks."""

    keep: str
    """The buffer in which every block has its index; an owner's own block already lies there."""
    own: str | None = None
    """A buffer that holds an owner's block from its start on as well, so that it can be sent at once."""


def sum_places(phases: int, *, in_place: bool, keep: str, final: str | None = None) -> list[SumPlace]:
    """The places of several reduce-scatters, one after another: in place everything happens in the input;
    out of place only the first reads the input, and the last leaves its sums in ``final``."""
    if in_place:
        return [SumPlace("input", "input")] * phases
    return [
        SumPlace("input" if phase == 0 else keep, keep, final if phase == phases - 1 else None)
        for phase in range(phases)
    ]


def merge_runs(blocks: Sequence[Block], first: int, count: int) -> list[Run]:
    """The runs of ``count`` blocks from ``first`` on, round the end, by index; those that touch are one."""
    merged: list[Run] = []
    for index, length in sorted(
        run for turn in range(first, first + count) for run in blocks[turn % len(blocks)]
    ):
        if merged and sum(merged[-1]) == index:
            merged[-1] = (merged[-1][0], merged[-1][1] + length)
        else:
            merged.append((index, length))
    return merged
