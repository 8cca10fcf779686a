"""GroupSequence: the groups of a plan while it is searched for, and the one way to change them.

Every move replaces a run of neighbouring groups by others. Only operators of that run get a new first group; all others keep theirs or are
shifted, which is one operation on a column. Since groups stand in an order in which they can run, whether a move is
legal is asked of positions in it, and only inside the run that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hemiola.fusion.evaluate import Numbers, first_groups
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.plan import Group


@dataclass(frozen=True, slots=True)
class Change:
    """Groups ``first`` up to, not including, ``end`` become others."""

    first: int
    end: int
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class GroupSequence:
    """Groups in the order in which they run."""

    graph: OpGraph
    groups: tuple[Group, ...]
    home: Numbers
    """The first group that computes each operator."""

    @staticmethod
    def of(graph: OpGraph, groups: Sequence[Group]) -> GroupSequence:
        """Of groups that obey the laws of a plan."""
        return GroupSequence(graph, tuple(groups), first_groups(graph, groups))

    def changed(self, change: Change) -> GroupSequence:
        """After a move."""
        groups = self.groups[: change.first] + change.groups + self.groups[change.end :]
        home = self.home.copy()
        shift = len(change.groups) - (change.end - change.first)
        if shift:
            home[home >= change.end] += shift
        for number in range(len(change.groups) - 1, -1, -1):
            members = np.array(change.groups[number], np.int32)
            home[members[self.home[members] >= change.first]] = change.first + number
        return GroupSequence(self.graph, groups, home)

    def reads(self, number: int) -> set[int]:
        """The groups from which a group reads, and those that draw random numbers before it."""
        members, before, home = set(self.groups[number]), self.graph.predecessors, self.home
        return {int(home[one]) for member in members for one in before[member] if one not in members}
