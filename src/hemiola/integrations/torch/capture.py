"""capture: one training step of a module as one graph, forward and backward, without touching the user's code.

The step is traced on an example batch into one functional graph of elementary operators. Views, elements of tuples and constants
are no operators of the `OpGraph`: they cost nothing, and whoever reads one makes it again. The optimizer comes after the step and is not in the graph.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from hemiola.errors import FusionError
from hemiola.fusion import graph as fusion_graph
from hemiola.fusion.graph import Gradient, Operator, OpGraph, StepPhase
from hemiola.integrations.torch.operator_work import is_free, signature_of, work_of
from hemiola.integrations.torch.private_api import (
    count_flops,
    fake_tensors,
    is_data_dependent,
    trace_joint_graph,
)

LossFunction = Callable[[Any, Any], Tensor]
"""From what the module gives and the targets to a loss."""

_TORCH = str(Path(torch.__file__).parent)


@dataclass(frozen=True)
class CapturedStep:
    """A training step as a graph of operators, and the traced graph from which it can be carried out."""

    graph: OpGraph
    traced: fx.GraphModule
    """Takes parameters, buffers and the batch; operators and free nodes."""
    nodes: tuple[fx.Node, ...]
    """The node of each operator."""
    tensors: tuple[fx.Node, ...]
    """The node that has the value of each tensor."""
    parameters: tuple[str, ...]
    """Names of the parameters that the graph takes first; tied parameters stand here several times."""
    first_names: tuple[str, ...]
    """The first name of each of these parameters, by which its gradient is known."""
    buffers: tuple[str, ...]
    """Names of the buffers that the graph takes next."""
    loss: fx.Node
    new_buffers: tuple[tuple[str, fx.Node], ...]
    """Buffers that the step changes, and their new values."""
    gradients: tuple[fx.Node, ...]
    """The value of each gradient of the graph."""

    @property
    def inputs(self) -> tuple[fx.Node, ...]:
        """What the traced graph takes, in order."""
        return tuple(node for node in self.traced.graph.nodes if node.op == "placeholder")

    @property
    def leaving(self) -> tuple[fx.Node, ...]:
        """What the step gives: the loss, the new buffers and the gradients."""
        return (self.loss, *(node for _, node in self.new_buffers), *self.gradients)

    @cached_property
    def order(self) -> dict[fx.Node, int]:
        """The place of each node in the traced graph."""
        return {node: number for number, node in enumerate(self.traced.graph.nodes)}

    def values_of(self, operator: int) -> list[fx.Node]:
        """The nodes that have the values that an operator makes."""
        return [self.tensors[tensor] for tensor in self.graph.operators[operator].outputs]


class _Step(nn.Module):
    """The module and the loss, as one module that gives the loss in a tuple."""

    def __init__(self, module: nn.Module, loss_fn: LossFunction, autocast: torch.dtype | None) -> None:
        super().__init__()
        self.module, self._loss_fn, self._autocast = module, loss_fn, autocast

    def forward(self, inputs: Any, targets: Any) -> tuple[Tensor]:
        kind = next((one.device.type for one in self.module.parameters()), "cpu")
        with torch.autocast(kind, dtype=self._autocast, enabled=self._autocast is not None):
            return (self._loss_fn(self.module(inputs), targets),)


def capture(
    module: nn.Module,
    loss_fn: LossFunction,
    batch: Sequence[Tensor],
    *,
    name: str = "",
    autocast: torch.dtype | None = None,
) -> CapturedStep:
    """The step ``loss_fn(module(inputs), targets)`` and its gradients for batches like ``(inputs, targets)``.

    With ``autocast``, the forward pass runs in that element type where PyTorch's autocast says so.
    """
    if len(batch) != 2:
        raise FusionError(f"a batch is a pair (inputs, targets); found {len(batch)} values")
    step = _Step(module, loss_fn, autocast)
    with _frozen(_without_gradient(step, batch)):
        traced, signature = _trace(step, batch)
        trainable = {
            name for name, one in module.named_parameters(remove_duplicate=False) if one.requires_grad
        }
    _drop_idle_nodes(traced)
    tied = _tied(module)
    outputs = _Outputs.of(traced, signature, tied, trainable)
    return _captured(name or type(module).__name__, traced, signature, outputs, tied)


def _without_gradient(step: _Step, batch: Sequence[Tensor]) -> list[nn.Parameter]:
    """Trainable parameters that the loss does not depend on; found on fake tensors, so that nothing is computed."""
    parameters = {name: one for name, one in step.named_parameters() if one.requires_grad}
    with explained_errors(), fake_tensors() as fake:
        values = {name: fake(one).requires_grad_() for name, one in parameters.items()}
        others = {name: fake(one) for name, one in step.named_buffers()}
        frozen = {name: fake(one) for name, one in step.named_parameters() if not one.requires_grad}
        inside = {**values, **others, **frozen}
        (loss,) = torch.func.functional_call(step, inside, tuple(map(fake, batch)))
        found: Sequence[Tensor | None] = torch.autograd.grad(loss, list(values.values()), allow_unused=True)
    return [one for one, gradient in zip(parameters.values(), found, strict=True) if gradient is None]


def _drop_idle_nodes(traced: fx.GraphModule) -> None:
    """Nodes that nobody reads, assertions about shapes and types among them: they hold for all batches like the example."""
    for node in reversed(traced.graph.nodes):
        if node.op == "call_function" and not node.users:
            traced.graph.erase_node(node)


@contextmanager
def _frozen(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Parameters that the loss does not depend on get no gradient; they are trainable again afterwards."""
    for one in parameters:
        one.requires_grad_(False)
    try:
        yield
    finally:
        for one in parameters:
            one.requires_grad_()


def _trace(step: _Step, batch: Sequence[Tensor]) -> tuple[fx.GraphModule, Any]:
    with explained_errors():
        return trace_joint_graph(step, batch)


@contextmanager
def explained_errors() -> Iterator[None]:
    """What goes wrong while a step is traced, with the user's line and the way out."""
    try:
        yield
    except Exception as error:
        place = _user_line(error)
        if is_data_dependent(error):
            raise FusionError(
                f"{place}: the step depends on the values of a tensor, so one graph cannot stand for all batches; use torch.where"
                " or masks instead of Python's if, loops over tensors, .item() and boolean indices"
            ) from error
        raise FusionError(f"{place}: the step cannot be captured: {_first_line(error)}") from error


def _user_line(error: BaseException) -> str:
    """The innermost line of the traceback that is not PyTorch's or ours."""
    ours = str(Path(__file__).parent)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_TORCH, ours, "<"))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "the module"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _tied(module: nn.Module) -> dict[str, str]:
    """The first name of the tensor of every parameter name; a tied parameter has several names."""
    first: dict[int, str] = {}
    named = module.named_parameters(remove_duplicate=False)
    return {name: first.setdefault(id(parameter), name) for name, parameter in named}


@dataclass(frozen=True)
class _Outputs:
    """What the traced graph gives, by meaning."""

    loss: fx.Node
    new_buffers: tuple[tuple[str, fx.Node], ...]
    gradients: tuple[tuple[str, fx.Node], ...]
    """Parameter and gradient; tied parameters are summed."""

    @staticmethod
    def of(traced: fx.GraphModule, signature: Any, tied: dict[str, str], trainable: set[str]) -> _Outputs:
        """Buffers come first, then the loss, then a gradient for each trainable parameter, in the order of the inputs."""
        given: Any = traced.graph.output_node().args[0]
        outputs = [one for one in given if isinstance(one, fx.Node)]
        buffers = list(signature.buffers_to_mutate.values())
        named = [_inner_name(one) for one in signature.parameters if _inner_name(one) in trainable]
        if len(outputs) != len(buffers) + 1 + len(named):
            raise FusionError(
                f"a step gives one loss, {len(buffers)} buffers and {len(named)} gradients; the traced one gives {len(outputs)} values"
            )
        by_parameter: dict[str, list[fx.Node]] = {}
        for name, gradient in zip(named, outputs[len(buffers) + 1 :], strict=True):
            by_parameter.setdefault(tied[name], []).append(gradient)
        found = _Outputs(
            outputs[len(buffers)],
            tuple(zip(map(_inner_name, buffers), outputs, strict=False)),
            tuple((name, _sum_of(traced, parts)) for name, parts in by_parameter.items()),
        )
        traced.graph.output_node().args = (found.all(),)
        return found

    def all(self) -> tuple[fx.Node, ...]:
        """The loss, the buffers and the gradients, in the order in which the step gives them."""
        return (
            self.loss,
            *(node for _, node in self.new_buffers),
            *(node for _, node in self.gradients),
        )


def _inner_name(name: str) -> str:
    """The name that the user's module has for a parameter or buffer of `_Step`."""
    return name.removeprefix("module.")


def _sum_of(traced: fx.GraphModule, parts: Sequence[fx.Node]) -> fx.Node:
    """The sum of the gradients of the names of one parameter."""
    total = parts[0]
    for part in parts[1:]:
        with traced.graph.inserting_before(traced.graph.output_node()):
            total, before = traced.graph.call_function(torch.ops.aten.add.Tensor, (total, part)), total
        total.meta["val"] = before.meta["val"]
    return total


def _captured(
    name: str, traced: fx.GraphModule, signature: Any, outputs: _Outputs, tied: dict[str, str]
) -> CapturedStep:
    parameters = tuple(_inner_name(one) for one in signature.parameters)
    leaving = set(outputs.all())
    nodes = tuple(
        node
        for node in traced.graph.nodes
        if node.op == "call_function" and (not is_free(node) or (node in leaving and base_of(node) is None))
    )
    builder = _GraphBuilder(traced, nodes, outputs.loss)
    operators = tuple(builder.operator(node) for node in nodes)
    held: dict[str, tuple[int, ...]] = {}
    for given, parameter in enumerate(parameters):  # they are the first that the graph is given
        held[tied[parameter]] = (*held.get(tied[parameter], ()), given)
    gradients = tuple(
        Gradient(parameter, builder.tensor_of(node), _num_bytes(node), held[parameter])
        for parameter, node in outputs.gradients
    )
    results = [builder.tensor_of(node) for _, node in outputs.new_buffers]
    graph = OpGraph(
        name, tuple(builder.described), operators, gradients, (builder.tensor_of(outputs.loss), *results)
    )
    return CapturedStep(
        graph,
        traced,
        nodes,
        tuple(builder.tensors),
        parameters,
        tuple(tied[one] for one in parameters),
        tuple(_inner_name(one) for one in signature.buffers),
        outputs.loss,
        outputs.new_buffers,
        tuple(node for _, node in outputs.gradients),
    )


def base_of(node: fx.Node) -> fx.Node | None:
    """The value that a free node is a view of or an element of; None for a constant.

    An element of an operator's tuple is a value itself.
    """
    while node.op == "call_function" and is_free(node):
        if not node.all_input_nodes:
            return None
        source = node.all_input_nodes[0]
        if gives_tuple(source):
            return node
        node = source
    return node


def gives_tuple(node: fx.Node) -> bool:
    """Whether a node is an operator with several values; a split gives several views and is free."""
    return isinstance(node.meta["val"], tuple | list) and not is_free(node)


class _GraphBuilder:
    """Numbers tensors and operators of a traced graph, free nodes left out."""

    def __init__(self, traced: fx.GraphModule, nodes: Sequence[fx.Node], loss: fx.Node) -> None:
        order = {node: number for number, node in enumerate(traced.graph.nodes)}
        self._order, self._last_forward = order, order[loss]
        self.tensors: list[fx.Node] = []
        self.described: list[fusion_graph.Tensor] = []
        self._number: dict[fx.Node, int] = {}
        for node in traced.graph.nodes:
            if node.op == "placeholder":
                self._add(node)
        for node in nodes:
            for value in _values(node):
                self._add(value)

    def _add(self, node: fx.Node) -> None:
        value = node.meta["val"]
        self._number[node] = len(self.tensors)
        self.tensors.append(node)
        shape, dtype = tuple(map(int, value.shape)), str(value.dtype).removeprefix("torch.")
        self.described.append(fusion_graph.Tensor(node.name, shape, dtype, _num_bytes(node)))

    def tensor_of(self, node: fx.Node) -> int:
        """The tensor of a node that is a value or a view of one."""
        base = node if node in self._number else base_of(node)
        assert base is not None, f"{node.name} is a constant and leaves the step, so it is an operator"
        return self._number[base]

    def operator(self, node: fx.Node) -> Operator:
        """A node as an operator."""
        sources = (one if one in self._number else base_of(one) for one in node.all_input_nodes)
        inputs = dict.fromkeys(self._number[one] for one in sources if one is not None)
        phase = StepPhase.FORWARD if self._order[node] <= self._last_forward else StepPhase.BACKWARD
        return Operator(
            node.name,
            str(node.target),
            work_of(node),
            phase,
            tuple(inputs),
            tuple(self._number[value] for value in _values(node)),
            signature_of(node),
            count_flops(node),
        )


def _values(node: fx.Node) -> Iterator[fx.Node]:
    """The nodes that have the values that an operator makes: its own, or the elements that are read of its tuple."""
    if isinstance(node.meta["val"], tuple | list):
        yield from (user for user in node.users if is_free(user))
    else:
        yield node


def _num_bytes(node: fx.Node) -> int:
    value = node.meta["val"]
    return int(value.numel()) * int(value.element_size())
