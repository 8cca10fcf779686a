"""GroupTask: a group of operators as something that another process, on this machine or another one, can compile and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from hemiola.fusion.plan import Group
from hemiola.integrations.torch.capture import CapturedStep
from hemiola.integrations.torch.group_module import build_group
from hemiola.integrations.torch.measuring.graph_record import GraphRecord, record_graph
from hemiola.integrations.torch.private_api import (
    compile_graph,
    propagate_shapes,
    register_compiler_operators,
)

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class TaskInput:
    """A tensor that a group reads: its form, and its values where they are indices."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    values: Numbers | None
    """None for floating-point numbers: their values do not change how long anything takes, and are drawn."""

    def make(self) -> Tensor:
        """The tensor; numbers that are drawn are the same in every process, and between 0 and 1."""
        made = torch.empty_strided(self.shape, self.strides, dtype=getattr(torch, self.dtype))
        if self.values is not None:
            return made.copy_(torch.from_numpy(self.values))
        drawn = torch.rand(self.shape, generator=torch.Generator().manual_seed(1)) * 0.9 + 0.05
        return made.copy_(drawn)


@dataclass(frozen=True)
class GroupTask:
    """A group's graph and what it reads."""

    graph: GraphRecord
    inputs: tuple[TaskInput, ...]
    is_compiled: bool
    """A single operator runs as it is; several are compiled."""

    def prepare(self) -> Callable[[], Sequence[Any]]:
        """A function without arguments that runs the group once."""
        register_compiler_operators()
        module = self.graph.rebuild()
        inputs = [one.make() for one in self.inputs]
        if not self.is_compiled:
            return lambda: module.forward(*inputs)
        propagate_shapes(module, inputs)
        compiled = compile_graph(module, inputs)
        return lambda: compiled(list(inputs))


def make_task(step: CapturedStep, group: Group, integers: dict[fx.Node, Tensor]) -> GroupTask:
    """Of a group of a captured step; ``integers`` are the values of tensors that are no floating-point numbers."""
    built = build_group(step, group)
    inputs = tuple(_describe(node, integers) for node in built.inputs)
    return GroupTask(record_graph(built.module.graph), inputs, len(group) > 1)


def _describe(node: fx.Node, integers: dict[fx.Node, Tensor]) -> TaskInput:
    value = node.meta["val"]
    real = None if value.dtype.is_floating_point else np.array(integers[node].numpy(), order="C")
    return TaskInput(
        tuple(map(int, value.shape)),
        tuple(map(int, value.stride())),
        str(value.dtype).rpartition(".")[2],
        real,
    )


class _IntegerRecorder(fx.Interpreter):
    """Runs a traced step and keeps every tensor that is not of floating-point numbers."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[fx.Node, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor) and not value.dtype.is_floating_point:
            self.found[n] = value
        return value


def integer_values(step: CapturedStep, given: Sequence[Tensor]) -> dict[fx.Node, Tensor]:
    """The values of all indices and masks of a step, run once in eager mode on ``given`` (parameters, buffers and batch)."""
    recorder = _IntegerRecorder(step.traced)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        recorder.run(*given)
    return recorder.found
