"""Groups of operators as graphs of their own, each of which takes what its group reads and gives what others read of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from hemiola.fusion.plan import Group
from hemiola.integrations.torch.capture import CapturedStep, base_of, gives_tuple
from hemiola.integrations.torch.operator_work import is_free


@dataclass(frozen=True)
class GroupModule:
    """A group's graph, and the nodes of the captured step that stand for its inputs and outputs."""

    module: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    num_operators: int


def build_groups(step: CapturedStep, groups: Sequence[Group]) -> list[GroupModule]:
    """The graph of every group. Of an operator that is in several groups, the first one gives its values to others."""
    chosen = [_nodes_of(step, group) for group in groups]
    outputs: list[dict[fx.Node, None]] = [{} for _ in groups]
    home = _homes(step, groups)
    for nodes in chosen:
        for source in _read_by(nodes):
            if source in home:
                outputs[home[source]][source] = None
    for node in step.leaving:
        base = node if node in home else base_of(node)
        outputs[home.get(base, 0) if base is not None else 0][node] = None
    return [
        _build(step, nodes, tuple(given), len(group))
        for nodes, given, group in zip(chosen, outputs, groups, strict=True)
    ]


def build_group(step: CapturedStep, group: Group) -> GroupModule:
    """The graph of one group alone: it gives everything that any operator outside of it reads, or that leaves the step."""
    nodes, inside = _nodes_of(step, group), set(group)
    read_outside = {
        source
        for number, node in enumerate(step.nodes)
        if number not in inside
        for source in _read_by(_with_free_nodes([node]))
    }
    values = [value for number in group for value in step.values_of(number)]
    leaving = [node for node in step.leaving if (node if node in values else base_of(node)) in values]
    given = dict.fromkeys((*(value for value in values if value in read_outside), *leaving))
    return _build(step, nodes, tuple(given), len(group))


def _homes(step: CapturedStep, groups: Sequence[Group]) -> dict[fx.Node, int]:
    """The first group that has each value."""
    found: dict[fx.Node, int] = {}
    for number, group in enumerate(groups):
        for one in group:
            for value in step.values_of(one):
                found.setdefault(value, number)
    return found


def _nodes_of(step: CapturedStep, group: Group) -> dict[fx.Node, None]:
    """The operators of a group, their values, and the free nodes that they are made of."""
    own = [node for number in group for node in (step.nodes[number], *step.values_of(number))]
    return _with_free_nodes(own)


def _with_free_nodes(nodes: Iterable[fx.Node]) -> dict[fx.Node, None]:
    waiting = list(nodes)
    chosen = dict.fromkeys(waiting)
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if source not in chosen and _is_made_again(source):
                chosen[source] = None
                waiting.append(source)
    return chosen


def _is_made_again(node: fx.Node) -> bool:
    """Whether a reader of a node makes it itself. An element of a tuple belongs to the operator that gives the tuple."""
    if node.op != "call_function" or not is_free(node):
        return False
    sources = node.all_input_nodes
    return not sources or not gives_tuple(sources[0])


def _read_by(nodes: dict[fx.Node, None]) -> dict[fx.Node, None]:
    """What some nodes read that is not among them."""
    return {source: None for node in nodes for source in node.all_input_nodes if source not in nodes}


def _build(
    step: CapturedStep, nodes: dict[fx.Node, None], outputs: tuple[fx.Node, ...], num_operators: int
) -> GroupModule:
    chosen = {**nodes, **_with_free_nodes([node for node in outputs if node not in nodes])}
    ordered = sorted(chosen, key=step.order.__getitem__)
    inputs = sorted(_read_by(chosen), key=step.order.__getitem__)
    graph, copied = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in inputs:
        copied[node] = graph.placeholder(node.name)
        copied[node].meta = dict(node.meta)
    for node in ordered:
        copied[node] = graph.node_copy(node, copied.__getitem__)
        if node.target is torch.ops.aten.view.default:
            copied[node].target = torch.ops.aten.reshape.default  # the strides may be others than when traced
    graph.output(tuple(copied[node] for node in outputs))
    return GroupModule(fx.GraphModule(step.traced, graph), tuple(inputs), outputs, num_operators)
