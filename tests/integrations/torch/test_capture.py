"""A captured step computes what eager mode computes, whatever the groups, and refuses what one graph cannot stand for."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from hemiola.errors import FusionError
from hemiola.fusion.graph import StepPhase, WorkKind, graph_from_json
from hemiola.fusion.plan import Group, check_groups
from hemiola.integrations.torch.capture import CapturedStep, capture
from hemiola.integrations.torch.models.library import MODELS, make_step
from hemiola.integrations.torch.models.training_step import ModelSize
from hemiola.integrations.torch.step_program import compile_program
from integrations.torch.steps import Batch, Loss, tied_step


def given(step: CapturedStep, module: nn.Module, batch: Batch) -> list[Tensor]:
    parameters, buffers = dict(module.named_parameters(remove_duplicate=False)), dict(module.named_buffers())
    first = [parameters[name].detach() for name in step.parameters]
    return [*first, *(buffers[name] for name in step.buffers), *batch]


def eager(module: nn.Module, loss_fn: Loss, batch: Batch) -> tuple[Tensor, nn.Module]:
    model = copy.deepcopy(module)
    torch.manual_seed(7)
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), model


def assert_like_eager(
    groups: Sequence[Group], step: CapturedStep, module: nn.Module, loss_fn: Loss, batch: Batch
) -> None:
    check_groups(step.graph, groups)
    program = compile_program(step, groups, given(step, module, batch))
    torch.manual_seed(7)
    loss, *others = program.run(given(step, module, batch), lambda number: None, lambda number, values: None)
    expected, model = eager(module, loss_fn, batch)
    torch.testing.assert_close(loss, expected)
    buffers, parameters = dict(model.named_buffers()), dict(model.named_parameters())
    for (name, _), found in zip(step.new_buffers, others, strict=False):
        torch.testing.assert_close(found, buffers[name])
    for gradient, found in zip(step.graph.gradients, others[len(step.new_buffers) :], strict=True):
        torch.testing.assert_close(found, parameters[gradient.parameter].grad, rtol=1e-4, atol=1e-6)


def test_operator_by_operator_a_step_is_that_of_eager_mode() -> None:
    module, loss_fn, batch = tied_step()
    step = capture(module, loss_fn, batch)
    assert_like_eager([(one,) for one in range(len(step.graph.operators))], step, module, loss_fn, batch)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_captured_as_in_eager_mode(name: str) -> None:
    """Among them: pooling, splits, whose parts are views of one value, batch norm, tied weights, sorting and dropout.

    In double precision: batch norm over a few values magnifies rounding.
    """
    module, loss_fn, (inputs, targets) = make_step(name, ModelSize.SMALL)
    module, batch = module.double(), (inputs.double() if inputs.is_floating_point() else inputs, targets)
    step = capture(module, loss_fn, batch)
    assert_like_eager([(one,) for one in range(len(step.graph.operators))], step, module, loss_fn, batch)


@pytest.mark.slow
@pytest.mark.parametrize("num_groups", [1, 3])
def test_compiled_groups_give_the_step_of_eager_mode(num_groups: int) -> None:
    module, loss_fn, batch = tied_step()
    step = capture(module, loss_fn, batch)
    size = len(step.graph.operators)
    ends = [number * size // num_groups for number in range(num_groups + 1)]
    groups = [tuple(range(low, high)) for low, high in itertools.pairwise(ends)]
    assert_like_eager(groups, step, module, loss_fn, batch)


def test_an_operator_in_two_groups_is_computed_twice_and_changes_nothing() -> None:
    module, loss_fn, batch = tied_step(dropout=0.0)
    step = capture(module, loss_fn, batch)
    twice = next(
        number
        for number, one in enumerate(step.graph.operators)
        if one.work is WorkKind.POINTWISE and len(step.graph.successors[number]) > 1
    )
    reader = step.graph.successors[twice][-1]
    groups = [(one,) if one != reader else (twice, reader) for one in range(len(step.graph.operators))]
    assert_like_eager(groups, step, module, loss_fn, batch)


def test_a_captured_graph_is_stable_and_read_back() -> None:
    module, loss_fn, batch = tied_step()
    first, second = capture(module, loss_fn, batch).graph, capture(module, loss_fn, batch).graph
    assert first == second
    assert graph_from_json(first.to_json()) == first
    assert first.digest == second.digest


def test_tied_parameters_have_one_gradient() -> None:
    module, loss_fn, batch = tied_step()
    graph = capture(module, loss_fn, batch).graph
    names = [gradient.parameter for gradient in graph.gradients]
    assert names == [name for name, _ in module.named_parameters()]
    assert graph.gradient_bytes == sum(4 * one.numel() for one in module.parameters())


def test_it_is_known_which_operators_read_a_parameter() -> None:
    module, loss_fn, batch = tied_step()
    graph = capture(module, loss_fn, batch).graph
    parameters = dict(module.named_parameters())
    for gradient, readers in zip(graph.gradients, graph.readers, strict=True):
        shape = tuple(parameters[gradient.parameter].shape)
        assert {graph.tensors[one].shape for one in gradient.parameter_tensors} == {shape}
        assert readers
        assert graph.operators[readers[0]].phase is StepPhase.FORWARD
    assert max(len(gradient.parameter_tensors) for gradient in graph.gradients) == 2, "one is tied"


def test_views_and_constants_are_no_operators() -> None:
    module, loss_fn, batch = tied_step()
    graph = capture(module, loss_fn, batch).graph
    kinds = {operator.kind for operator in graph.operators}
    assert not kinds & {"aten.view.default", "aten.permute.default", "aten.full.default"}
    phases = [operator.phase for operator in graph.operators]
    assert phases == sorted(phases, key=[StepPhase.FORWARD, StepPhase.BACKWARD].index)
    assert {operator.work for operator in graph.operators} >= {
        WorkKind.MATMUL,
        WorkKind.RANDOM,
        WorkKind.REDUCTION,
    }


def test_random_operators_may_not_be_drawn_twice() -> None:
    module, loss_fn, batch = tied_step()
    graph = capture(module, loss_fn, batch).graph
    groups = [(one,) for one in range(len(graph.operators))]
    random = next(number for number, one in enumerate(graph.operators) if one.work is WorkKind.RANDOM)
    with pytest.raises(FusionError, match="a second time"):
        check_groups(graph, [*groups, (random,)])


def test_random_operators_are_drawn_in_the_order_of_the_graph() -> None:
    graph = capture(TwoDraws(), nn.functional.mse_loss, (torch.randn(2, 4), torch.randn(2, 4))).graph
    first, second = (number for number, one in enumerate(graph.operators) if one.work is WorkKind.RANDOM)
    rest = tuple(one for one in range(len(graph.operators)) if one not in (first, second))
    early = tuple(one for one in rest if one < second)
    check_groups(graph, [early, (first,), (second,), tuple(one for one in rest if one > second)])
    with pytest.raises(FusionError, match="in the order of the graph"):
        check_groups(graph, [early, (second,), (first,), tuple(one for one in rest if one > second)])


class TwoDraws(nn.Module):
    """Two dropouts of which neither reads the other."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.layer(inputs)
        return nn.functional.dropout(hidden, 0.5) + nn.functional.dropout(hidden, 0.5)


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.layer(inputs)
        return hidden * 2 if hidden.sum() > 0 else hidden


def test_control_flow_on_values_is_refused_with_its_line() -> None:
    batch = (torch.randn(2, 4), torch.randn(2, 4))
    with pytest.raises(FusionError, match=r"test_capture.py:\d+: the step depends on the values of a tensor"):
        capture(Branching(), nn.functional.mse_loss, batch)


def test_what_is_no_pair_is_no_batch() -> None:
    with pytest.raises(FusionError, match="found 1 values"):
        capture(nn.Linear(4, 4), nn.functional.mse_loss, (torch.randn(2, 4),))
