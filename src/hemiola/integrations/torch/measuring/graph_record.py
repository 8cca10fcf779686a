"""GraphRecord: a traced graph as plain values that can be pickled; PyTorch's own pickling runs constants and loses them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import fx

_GETITEM = "getitem"


@dataclass(frozen=True, slots=True)
class NodeReference:
    """Stands for a node among the arguments of others."""

    number: int


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One node: ``placeholder``, ``call_function`` or ``output``."""

    op: str
    target: str
    """``aten.add.Tensor`` for an operator."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """The nodes in order."""

    nodes: tuple[NodeRecord, ...]

    def rebuild(self) -> fx.GraphModule:
        """The graph again; the forms of its values are not in it."""
        graph, nodes = fx.Graph(), list[fx.Node]()
        for one in self.nodes:
            args = _restore(one.args, nodes)
            if one.op == "placeholder":
                nodes.append(graph.placeholder(one.target))
            elif one.op == "output":
                nodes.append(graph.output(args[0]))
            else:
                nodes.append(graph.call_function(_resolve(one.target), args, _restore(one.kwargs, nodes)))
        return fx.GraphModule({}, graph)


def record_graph(graph: fx.Graph) -> GraphRecord:
    """Of a graph of operators, without modules and attributes."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}

    def reference(node: fx.Node) -> Any:
        return NodeReference(numbers[node])

    return GraphRecord(
        tuple(
            NodeRecord(
                node.op,
                _GETITEM if node.target is operator.getitem else str(node.target),
                _plain(fx.node.map_arg(node.args, reference)),
                _plain(fx.node.map_arg(node.kwargs, reference)),
            )
            for node in graph.nodes
        )
    )


def _plain(value: Any) -> Any:
    """Without the immutable containers of fx, which pickle only by way of private functions."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return tuple(_plain(one) for one in value) if isinstance(value, tuple) else value


def _restore(value: Any, nodes: list[fx.Node]) -> Any:
    if isinstance(value, NodeReference):
        return nodes[value.number]
    if isinstance(value, dict):
        return {name: _restore(one, nodes) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_restore(one, nodes) for one in value)
    return value


def _resolve(target: str) -> Any:
    if target == _GETITEM:
        return operator.getitem
    return reduce(getattr, target.split("."), torch.ops)
