"""Sampled groups are convex, their parts are what the compiler can fuse, and equal work has equal hashes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from fusion.estimator.graphs import operator_times, random_graph, renumbered, seeds
from hemiola.fusion.estimator.canonical import GroupHasher
from hemiola.fusion.estimator.features import FeatureMaker
from hemiola.fusion.estimator.sample_groups import MAX_OPERATORS, Reachability, sample_families
from hemiola.fusion.graph import OpGraph, WorkKind
from hemiola.fusion.plan import Group


def is_convex(graph: OpGraph, group: Group) -> bool:
    """By walking: nothing outside that a member reaches is read by a member."""
    inside, reached = set(group), set[int]()
    waiting = [reader for one in group for reader in graph.successors[one] if reader not in inside]
    while waiting:
        one = waiting.pop()
        if one in inside:
            return False
        if one not in reached:
            reached.add(one)
            waiting += graph.successors[one]
    return True


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_sampled_groups_are_convex_and_families_cover_the_same_operators(seed: int) -> None:
    graph = random_graph(seed)
    for family in sample_families(graph, 6, seed):
        whole = family.groupings[0][0]
        assert 2 <= len(whole) <= MAX_OPERATORS
        for grouping in family.groupings:
            assert all(is_convex(graph, group) for group in grouping)
            assert sorted(one for group in grouping for one in group) == list(whole)


def test_more_families_continue_fewer() -> None:
    graph = random_graph(3)
    assert sample_families(graph, 9, 1)[:4] == sample_families(graph, 4, 1)
    assert sample_families(graph, 9, 1) != sample_families(graph, 9, 2)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_the_convex_group_around_operators_is_the_smallest(seed: int) -> None:
    graph = random_graph(seed, 12)
    reach = Reachability(graph)
    members = {seed % 12, seed // 12 % 12}
    closed = reach.convex(members)
    assert is_convex(graph, tuple(sorted(closed)))
    for extra in closed - members:
        assert not is_convex(graph, tuple(sorted(closed - {extra})))


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_parts_divide_a_group_and_no_kernel_lies_between_two_operators_of_one(seed: int) -> None:
    graph = random_graph(seed)
    maker = FeatureMaker(graph, operator_times(graph))
    group = tuple(range(4, 20))
    parts = maker.splitter.split(group).parts
    assert sorted(one for part in parts for one in part) == list(group)
    for part in parts:
        alone = [one for one in part if graph.operators[one].work in (WorkKind.MATMUL, WorkKind.RANDOM)]
        assert not alone or len(part) == 1
        closed = Reachability(graph).convex(set(part)) & set(group)
        between = closed - set(part)
        assert not any(graph.operators[one].work in (WorkKind.MATMUL, WorkKind.RANDOM) for one in between)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_renumbered_groups_hash_alike(seed: int) -> None:
    graph = random_graph(seed, with_random=False)
    again, number = renumbered(graph, seed + 1)
    ours, theirs = GroupHasher(graph), GroupHasher(again)
    for family in sample_families(graph, 5, seed):
        for group in (group for way in family.groupings for group in way):
            assert ours.hash(group) == theirs.hash(tuple(sorted(number[one] for one in group)))


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_changed_groups_hash_differently(seed: int) -> None:
    graph = random_graph(seed)
    group = tuple(range(6, 18))
    before = GroupHasher(graph).hash(group)
    changed = group[seed % len(group)]
    other = _with_operator(graph, changed, signature="another")
    assert GroupHasher(other).hash(group) != before
    assert GroupHasher(graph).hash(group[1:]) != before
    kept = next((one for one in group if _is_inner(graph, one, set(group))), None)
    if kept is not None:
        leaving = replace(graph, results=graph.operators[kept].outputs)
        assert GroupHasher(leaving).hash(group) != before


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_a_rewired_group_hashes_differently(seed: int) -> None:
    """Another tensor of the same form from another source is another group."""
    graph = random_graph(seed)
    group = tuple(range(6, 18))
    reader = graph.operators[group[-1]]
    first = reader.inputs[0]
    alike = [
        tensor
        for tensor in range(first)
        if tensor not in reader.inputs
        and graph.tensors[tensor].shape == graph.tensors[first].shape
        and (graph.producers.get(tensor, -1) in group) != (graph.producers.get(first, -1) in group)
    ]
    if alike:
        other = _with_operator(graph, group[-1], inputs=(alike[0], *reader.inputs[1:]))
        assert GroupHasher(other).hash(group) != GroupHasher(graph).hash(group)


def _with_operator(graph: OpGraph, number: int, **changes: object) -> OpGraph:
    operators = list(graph.operators)
    operators[number] = replace(operators[number], **changes)  # type: ignore[arg-type]
    return replace(graph, operators=tuple(operators))


def _is_inner(graph: OpGraph, one: int, inside: set[int]) -> bool:
    """Whether only the group reads what an operator makes."""
    output = graph.operators[one].outputs[0]
    return output not in graph.leaving and set(graph.successors[one]) <= inside
