"""Groups: which devices take part in a step together.

A grouping of a hierarchy is a range of factors, ``first`` to ``end``, whose digits vary inside a group. Digits outside
the range tell the groups apart; a master grouping has only the groups whose digits from ``end`` on are zero. Of n factors
there are n (n + 1) / 2 ranges, and n (n - 1) / 2 of them end above the last factor and have a master form: n² in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from hemiola.collectives import CollectiveKind
from hemiola.synthesis.program import Form, Instruction

Group = tuple[int, ...]
"""Devices of the hierarchy, in order; device numbers are mixed-radix, the outermost digit first."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The factors that vary inside a group."""

    first: int
    end: int
    master: bool = False
    """Only the groups whose digits from ``end`` on are zero."""

    def size(self, factors: Sequence[int]) -> int:
        """Members of a group."""
        return prod(factors[self.first : self.end])

    @property
    def levels(self) -> int:
        """The factors that vary, as bits: bit j for factor j."""
        return (1 << self.end) - (1 << self.first)


def grouping_of(instruction: Instruction, depth: int) -> Grouping:
    """What a step's slice and form mean."""
    if instruction.ancestor is None:
        return Grouping(instruction.slice_level, depth)
    end = instruction.slice_level
    return Grouping(instruction.ancestor, end, instruction.form is Form.MASTER and end < depth)


def instruction_of(grouping: Grouping, collective: CollectiveKind, depth: int) -> Instruction:
    """The one way that we write a grouping: InsideGroup where a group reaches down to the devices."""
    if grouping.end == depth:
        return Instruction(grouping.first, Form.INSIDE, collective)
    form = Form.MASTER if grouping.master else Form.PARALLEL
    return Instruction(grouping.end, form, collective, grouping.first)


def groupings(depth: int) -> list[Grouping]:
    """All n² groupings of a hierarchy."""
    found = [
        Grouping(first, end, master)
        for first in range(depth)
        for end in range(first + 1, depth + 1)
        for master in ((False,) if end == depth else (False, True))
    ]
    assert len(found) == depth * depth
    return found


@lru_cache(maxsize=4096)
def groups_of(grouping: Grouping, factors: tuple[int, ...]) -> tuple[Group, ...]:
    """The groups, each with its members in order. (2, 3): factor 0 gives (0, 3), (1, 4), (2, 5)."""
    stride = prod(factors[grouping.end :])
    span = stride * grouping.size(factors)
    return tuple(
        tuple(range(high + low, high + low + span, stride))
        for high in range(0, prod(factors), span)
        for low in range(1 if grouping.master else stride)
    )
