"""moves: the changes of a grouping that keep it legal. Each gives a Change, or None where a law forbids it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from hemiola.fusion.graph import OpGraph, WorkKind
from hemiola.fusion.group_sequence import Change, GroupSequence
from hemiola.fusion.plan import Group

MOST_BETWEEN = 64
"""Groups between two that are fused, at most; so a check takes bounded time."""


def fuse_neighbours(grouping: GroupSequence, number: int) -> Change | None:
    """A group and the next one become one. Always legal."""
    if number + 1 >= len(grouping.groups):
        return None
    return Change(number, number + 2, (union(*grouping.groups[number : number + 2]),))


def fuse(grouping: GroupSequence, early: int, late: int) -> Change | None:
    """Two groups become one (DisCo's non-duplicate fusion); readers of the early one wait for it.

    Groups between them that need the early one run after the fused group, the others before it. If the late one needs one of
    the former, fusing would make a cycle.
    """
    if not 0 <= early < late or late - early - 1 > MOST_BETWEEN:
        return None
    moved = {early}
    for number in range(early + 1, late):
        if moved & grouping.reads(number):
            moved.add(number)
    if (moved - {early}) & grouping.reads(late):
        return None
    between = range(early + 1, late)
    fused = union(grouping.groups[early], grouping.groups[late])
    before = tuple(grouping.groups[number] for number in between if number not in moved)
    after = tuple(grouping.groups[number] for number in between if number in moved)
    return Change(early, late + 1, (*before, fused, *after))


def duplicate(grouping: GroupSequence, early: int, late: int) -> Change | None:
    """The late group computes all of the early one again, which stays as it is (DisCo's duplicate fusion). Random numbers are drawn once."""
    if not 0 <= early < late or any(map(draws(grouping.graph), grouping.groups[early])):
        return None
    fused = union(grouping.groups[early], grouping.groups[late])
    return None if fused == grouping.groups[late] else Change(late, late + 1, (fused,))


def duplicate_operator(grouping: GroupSequence, operator: int, late: int) -> Change | None:
    """A later group computes one operator again, unless it draws random numbers."""
    if draws(grouping.graph)(operator):
        return None
    if grouping.home[operator] >= late or operator in grouping.groups[late]:
        return None
    return Change(late, late + 1, (union(grouping.groups[late], (operator,)),))


def drop_duplicates(grouping: GroupSequence, number: int) -> Change | None:
    """A group reads again what an earlier group has computed."""
    group = grouping.groups[number]
    kept = tuple(one for one in group if grouping.home[one] == number)
    if kept == group:
        return None
    return Change(number, number + 1, (kept,) if kept else ())


def split_after(grouping: GroupSequence, number: int, operator: int) -> Change | None:
    """A group is cut in two after one of its operators, in the order of the graph. Always legal."""
    group = grouping.groups[number]
    place = bisect_left(group, operator + 1)
    if not 0 < place < len(group):
        return None
    return Change(number, number + 1, (group[:place], group[place:]))


def extract_needed(grouping: GroupSequence, number: int, operator: int) -> Change | None:
    """A group is cut in two: all that an operator needs of it, and the others."""
    group = grouping.groups[number]
    needed = needed_within(grouping.graph, group, operator)
    if len(needed) == len(group):
        return None
    return Change(
        number, number + 1, (tuple(sorted(needed)), tuple(one for one in group if one not in needed))
    )


def shift_border(grouping: GroupSequence, number: int, operator: int) -> Change | None:
    """The border between a group and the next is moved to after an operator of one of them, in the order of the graph."""
    if number + 1 >= len(grouping.groups):
        return None
    both = union(*grouping.groups[number : number + 2])
    place = bisect_left(both, operator + 1)
    if not 0 < place < len(both) or both[:place] == grouping.groups[number]:
        return None
    return Change(number, number + 2, (both[:place], both[place:]))


def run_earlier(grouping: GroupSequence, number: int, place: int) -> Change | None:
    """A group runs before the one at an earlier place."""
    if not 0 <= place < number or number - place > MOST_BETWEEN:
        return None
    if max(grouping.reads(number), default=-1) >= place:
        return None
    groups = grouping.groups
    return Change(place, number + 1, (groups[number], *groups[place:number]))


def run_later(grouping: GroupSequence, number: int, place: int) -> Change | None:
    """A group runs after the one at a later place."""
    if not number < place < len(grouping.groups) or place - number > MOST_BETWEEN:
        return None
    if any(number in grouping.reads(other) for other in range(number + 1, place + 1)):
        return None
    groups = grouping.groups
    return Change(number, place + 1, (*groups[number + 1 : place + 1], groups[number]))


def draws(graph: OpGraph) -> Callable[[int], bool]:
    """Whether an operator draws random numbers."""
    return lambda operator: graph.operators[operator].work is WorkKind.RANDOM


def union(*groups: Group) -> Group:
    """All operators of some groups, in order."""
    return tuple(sorted({one for group in groups for one in group}))


def needed_within(graph: OpGraph, group: Group, operator: int) -> set[int]:
    """An operator of a group and everything of the group that it needs."""
    members, found, left = set(group), {operator}, [operator]
    while left:
        for one in graph.predecessors[left.pop()]:
            if one in members and one not in found:
                found.add(one)
                left.append(one)
    return found
