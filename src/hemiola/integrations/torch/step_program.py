"""StepProgram: the groups of a plan, compiled, as a sequence of calls that pass values on and free them after their last reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from hemiola.errors import FusionError
from hemiola.fusion.plan import Group
from hemiola.integrations.torch.capture import CapturedStep
from hemiola.integrations.torch.group_module import GroupModule, build_groups
from hemiola.integrations.torch.private_api import compile_graph

Compiled = Callable[[list[Any]], Sequence[Any]]
"""Takes the values that a group reads in a list, which it may empty."""


@dataclass(frozen=True, slots=True)
class GroupCall:
    """One group as it runs: values have numbers."""

    run: Compiled
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    frees: tuple[int, ...]
    """Values that nobody reads afterwards."""


@dataclass(frozen=True)
class StepProgram:
    """A captured step with its groups compiled."""

    calls: tuple[GroupCall, ...]
    num_values: int
    first_reader: tuple[int, ...]
    """The first group that reads each value that is given to the step; the number of groups where none does."""
    leaving: tuple[int, ...]
    """The values of `CapturedStep.leaving`."""
    made_by: dict[int, int]
    """The group that makes each value that leaves."""

    def run(
        self, given: Sequence[Tensor], before: Callable[[int], None], after: Callable[[int, list[Any]], None]
    ) -> list[Any]:
        """All groups in order; ``before`` and ``after`` are called around each with its number. Gives the values that leave.

        A value that is not kept is None then.
        """
        values: list[Any] = [*given, *[None] * (self.num_values - len(given))]
        for number, call in enumerate(self.calls):
            before(number)
            made = call.run([values[one] for one in call.reads])
            for one, value in zip(call.gives, made, strict=True):
                values[one] = value
            after(number, values)
            for one in call.frees:
                values[one] = None
        return [values[one] for one in self.leaving]


def compile_program(
    step: CapturedStep,
    groups: Sequence[Group],
    given: Sequence[Tensor],
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    keep_gradients: bool = True,
) -> StepProgram:
    """Compile every group for inputs like ``given``: the parameters, the buffers and the batch of the step.

    Gradients that are not kept are there when the group that makes them has run, and are freed after their last reader.
    A group is compiled for what the groups before it really give, because the compiler chooses the strides of its outputs.
    """
    modules = build_groups(step, groups)
    numbers = number_values(step, modules)
    kept = step.leaving if keep_gradients else step.leaving[: -len(step.gradients)]
    last = _last_readers(modules, kept, numbers)
    values: list[Any] = [*given, *[None] * (len(numbers) - len(given))]
    calls = []
    state = torch.random.get_rng_state()
    for number, module in enumerate(modules):
        reads = tuple(numbers[node] for node in module.inputs)
        call = _compile(number, module, [values[one] for one in reads])
        gives = tuple(numbers[node] for node in module.outputs)
        made = call([values[one] for one in reads])
        for one, value in zip(gives, made, strict=True):
            values[one] = value
        frees = tuple(one for one in {*reads, *gives} if last[one] == number)
        for one in frees:
            values[one] = None
        calls.append(GroupCall(call, reads, gives, frees))
        progress(number + 1, len(modules))
    torch.random.set_rng_state(state)
    return link_calls(step, calls, numbers)


def link_calls(step: CapturedStep, calls: Sequence[GroupCall], numbers: dict[fx.Node, int]) -> StepProgram:
    """Calls as a program; ``numbers`` are those of `number_values`."""
    num_given = len(step.inputs)
    first = [len(calls)] * num_given
    made_by: dict[int, int] = {}
    for number, call in enumerate(calls):
        for one in call.reads:
            if one < num_given:
                first[one] = min(first[one], number)
        made_by.update(dict.fromkeys(call.gives, number))
    leaving = tuple(numbers[node] for node in step.leaving)
    return StepProgram(tuple(calls), len(numbers), tuple(first), leaving, made_by)


def _compile(number: int, module: GroupModule, inputs: Sequence[Tensor]) -> Compiled:
    """One operator alone runs as it is; several are compiled."""
    if module.num_operators == 1:
        return _run_alone(module.module)
    try:
        return compile_graph(module.module, inputs)
    except Exception as error:  # the compiler raises many kinds
        raise FusionError(
            f"group {number} with {module.num_operators} operators cannot be compiled: {str(error).strip().splitlines()[0]}"
        ) from error


def _run_alone(module: fx.GraphModule) -> Compiled:
    forward = module.forward

    def run(values: list[Any]) -> Sequence[Any]:
        with torch.no_grad():
            found: Sequence[Any] = forward(*values)
        return found

    return run


def number_values(step: CapturedStep, modules: Sequence[GroupModule]) -> dict[fx.Node, int]:
    """Inputs of the step first, then what the groups give, in order."""
    nodes = [*step.inputs, *(node for module in modules for node in module.outputs)]
    return {node: number for number, node in enumerate(dict.fromkeys(nodes))}


def _last_readers(
    modules: Sequence[GroupModule], kept: Sequence[fx.Node], numbers: dict[fx.Node, int]
) -> list[int]:
    """The last group that reads or makes each value; values that are kept are read after all groups."""
    last = [-1] * len(numbers)
    for number, module in enumerate(modules):
        for node in (*module.inputs, *module.outputs):
            last[numbers[node]] = number
    for node in kept:
        last[numbers[node]] = len(modules)
    return last
