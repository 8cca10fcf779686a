"""Every move that is offered keeps the laws of plans, and the positions that it keeps are those of the plan."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fusion.steps import chain, graphs, unhurried
from hemiola.fusion import moves
from hemiola.fusion.evaluate import first_groups
from hemiola.fusion.graph import OpGraph, WorkKind
from hemiola.fusion.group_sequence import Change, GroupSequence
from hemiola.fusion.plan import check_groups


def draw_move(data: st.DataObject, grouping: GroupSequence) -> Change | None:
    num = len(grouping.groups)
    one, two = data.draw(st.integers(0, num - 1)), data.draw(st.integers(0, num - 1))
    operator = data.draw(st.sampled_from(grouping.groups[one]))
    anywhere = data.draw(st.integers(0, len(grouping.graph.operators) - 1))
    options = [
        moves.fuse_neighbours(grouping, one),
        moves.fuse(grouping, one, two),
        moves.duplicate(grouping, one, two),
        moves.duplicate_operator(grouping, anywhere, two),
        moves.drop_duplicates(grouping, one),
        moves.split_after(grouping, one, operator),
        moves.extract_needed(grouping, one, operator),
        moves.shift_border(grouping, one, operator),
        moves.run_earlier(grouping, one, two),
        moves.run_later(grouping, one, two),
    ]
    return data.draw(st.sampled_from(options))


@unhurried
@given(graphs(), st.data())
def test_any_walk_stays_legal(graph: OpGraph, data: st.DataObject) -> None:
    grouping = GroupSequence.of(graph, [(one,) for one in range(len(graph.operators))])
    for _ in range(data.draw(st.integers(1, 12))):
        change = draw_move(data, grouping)
        if change is not None:
            grouping = grouping.changed(change)
            check_groups(graph, grouping.groups)
            drawn = [
                one
                for group in grouping.groups
                for one in group
                if graph.operators[one].work is WorkKind.RANDOM
            ]
            assert drawn == sorted(drawn), "random numbers are those of eager mode"
            assert np.array_equal(grouping.home, first_groups(graph, grouping.groups))


@unhurried
@given(graphs(), st.data())
def test_two_groups_are_fused_exactly_where_that_makes_no_cycle(graph: OpGraph, data: st.DataObject) -> None:
    num = len(graph.operators)
    groups = [(one,) for one in range(num)]
    early = data.draw(st.integers(0, num - 2))
    late = data.draw(st.integers(early + 1, num - 1))
    reached = {early}
    for one in range(early + 1, late):
        if reached & set(graph.predecessors[one]):
            reached.add(one)
    cycle = bool((reached - {early}) & set(graph.predecessors[late]))
    assert (moves.fuse(GroupSequence.of(graph, groups), early, late) is None) == cycle


def test_readers_of_the_early_group_wait_for_the_fused_one() -> None:
    graph = chain([1, 1, 1], [(2, 0, 8)])
    grouping = GroupSequence.of(graph, [(0,), (1,), (2,)])
    assert moves.fuse(grouping, 0, 2) is None, "2 needs 1, which needs 0"
    assert moves.duplicate(grouping, 0, 2) == Change(2, 3, ((0, 2),))
    again = grouping.changed(Change(2, 3, ((0, 2),)))
    assert moves.drop_duplicates(again, 2) == Change(2, 3, ((2,),))
