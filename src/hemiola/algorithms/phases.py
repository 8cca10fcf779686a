"""Phases: exchanges over one level of the machine after another, composed into whole collectives.

``levels`` are the sizes of the machine's levels, outermost first: (128, 8) is 128 nodes of 8 ranks. A
rank's digit at a level says which of the level's members it belongs to; the innermost digit changes
fastest. A phase handles one level: its groups are the ranks that differ only in that digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from hemiola.algorithms.buffer_places import Block, GatherPlace, sum_places
from hemiola.algorithms.exchanges import Exchange
from hemiola.algorithms.start_program import copy_if_alone
from hemiola.language.program import INPUT, OUTPUT, Program

Levels = tuple[int, ...]

Layout = Callable[[int, Levels, int], Block]
"""The block that a rank owns once the phase of a level has reduced (or before it gathers)."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One exchange in every group of one level."""

    exchange: Exchange
    groups: Sequence[Sequence[int]]
    blocks: Sequence[Sequence[Block]]
    """Per group and member, what the member owns."""


def phases_of(levels: Levels, exchanges: Sequence[Exchange], layout: Layout) -> list[Phase]:
    """A phase per level that has more than one member, outermost first."""
    found = []
    for level, (size, exchange) in enumerate(zip(levels, exchanges, strict=True)):
        if size > 1:
            groups = groups_of(levels, level)
            blocks = [[layout(rank, levels, level) for rank in group] for group in groups]
            found.append(Phase(exchange, groups, blocks))
    return found


def groups_of(levels: Levels, level: int) -> list[range]:
    """The ranks that differ only in their digit of ``level``: for (2, 3), level 0: {0, 3}, {1, 4}, {2, 5}."""
    stride = prod(levels[level + 1 :])
    span = stride * levels[level]
    return [
        range(high + low, high + low + span, stride)
        for high in range(0, prod(levels), span)
        for low in range(stride)
    ]


def packed_inside_first(rank: int, levels: Levels, level: int) -> Block:
    """Inner levels cut first, every rank's block is one run, and who owns what is free.

    For (2, 4): level 1 gives local rank g the chunks 2 g and 2 g + 1, level 0 one of them to each node.
    """
    size, start = prod(levels), 0
    for j in reversed(range(level, len(levels))):
        rank, digit = divmod(rank, levels[j])
        size //= levels[j]
        start += digit * size
    return ((start, size),)


def strided_inside_first(rank: int, levels: Levels, level: int) -> Block:
    """Inner levels cut first, and rank r ends with chunk r: its blocks are chunks at equal distances."""
    distance = prod(levels[level:])
    return tuple((index, 1) for index in range(rank % distance, prod(levels), distance))


def packed_outside_first(rank: int, levels: Levels, level: int) -> Block:
    """Outer levels cut first, rank r ends with chunk r, and every rank's block is one run."""
    size = prod(levels[level + 1 :])
    return ((rank // size * size, size),)


def all_reduce(p: Program, phases: Sequence[Phase]) -> None:
    """Reduce-scatter from the last phase to the first, then all-gather back."""
    if copy_if_alone(p):
        return
    keep = INPUT if p.collective.in_place else OUTPUT
    places = sum_places(len(phases), in_place=p.collective.in_place, keep=keep)
    for phase, place in zip(reversed(phases), places, strict=True):
        for group, blocks in zip(phase.groups, phase.blocks, strict=True):
            phase.exchange.reduce_scatter(p, group, blocks, place)
    for phase in phases:
        for group, blocks in zip(phase.groups, phase.blocks, strict=True):
            phase.exchange.all_gather(p, group, blocks, GatherPlace(keep))


def reduce_scatter(p: Program, phases: Sequence[Phase]) -> None:
    """Reduce-scatter from the first phase given to the last; rank r must end as the owner of chunk r."""
    if copy_if_alone(p):
        return
    places = sum_places(len(phases), in_place=p.collective.in_place, keep="sums", final=OUTPUT)
    for phase, place in zip(phases, places, strict=True):
        for group, blocks in zip(phase.groups, phase.blocks, strict=True):
            phase.exchange.reduce_scatter(p, group, blocks, place)


def all_gather(p: Program, phases: Sequence[Phase]) -> None:
    """All-gather from the first phase given to the last; rank r starts as the owner of chunk r."""
    own = None if p.collective.in_place else INPUT
    if own is not None:
        for rank in range(p.num_ranks):
            p.chunk(rank, own).copy(rank, OUTPUT, rank)
    for phase in phases:
        for group, blocks in zip(phase.groups, phase.blocks, strict=True):
            phase.exchange.all_gather(p, group, blocks, GatherPlace(OUTPUT, own))
        own = None
