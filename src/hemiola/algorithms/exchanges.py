"""Exchange: one way for a group of ranks to reduce-scatter or to all-gather, usable on any part of the data.

A reduce-scatter over ``members`` leaves the sum of ``blocks[k]`` on ``members[k]``; an all-gather starts
from there and leaves every block on every member, each at the index it had. The algorithms of the library
are these two over all ranks at once, or over one level of the machine after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hemiola.algorithms import circulants, pairs, rings
from hemiola.algorithms.buffer_places import Block, GatherPlace, SumPlace
from hemiola.language.program import Program


class ReduceScatter(Protocol):
    """Leaves the sum of ``blocks[k]`` on ``members[k]``."""

    def __call__(
        self, p: Program, members: Sequence[int], blocks: Sequence[Block], place: SumPlace
    ) -> None: ...


class AllGather(Protocol):
    """Leaves ``blocks[k]``, which only ``members[k]`` has, on every member."""

    def __call__(
        self, p: Program, members: Sequence[int], blocks: Sequence[Block], place: GatherPlace
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """A pair of mirror images: what the one takes apart, the other puts together."""

    reduce_scatter: ReduceScatter
    all_gather: AllGather
    steps: Callable[[int, bool], int]
    """Dependent messages of either half, for so many members; and whether neighbours' blocks touch, so that
    several travel as one message."""


RING = Exchange(rings.reduce_scatter, rings.all_gather, rings.steps)
ALL_PAIRS = Exchange(pairs.reduce_scatter, pairs.all_gather, pairs.steps)
HALVING = Exchange(circulants.reduce_scatter, circulants.all_gather, circulants.steps)

EXCHANGES: Mapping[str, Exchange] = {"ring": RING, "allpairs": ALL_PAIRS, "halving": HALVING}
"""By the name that parameters use."""
