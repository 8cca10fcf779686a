"""Steps that run as plans say train the same model as DDP does, and refuse plans that are not theirs before they change anything."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn

from hemiola.errors import FusionError
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan
from hemiola.integrations.torch.capture import capture
from hemiola.integrations.torch.compile_step import compile_step
from integrations.torch import stepping
from integrations.torch.stepping import Way, make_optimizer, make_plan
from integrations.torch.steps import tied_step
from integrations.torch.torch_ranks import TorchRanks

WAYS = {
    "one bucket": Way(100),
    "a bucket each": Way(1, optimizer="sgd"),
    "parts": Way(3, num_parts=4),
    "split": Way(2, BucketForm.SPLIT),
    "split in parts": Way(3, BucketForm.SPLIT, num_parts=3, optimizer="sgd"),
    "all split": Way(100, BucketForm.SPLIT),
    "clipped": Way(3, max_norm=0.1),
    "split and clipped": Way(2, BucketForm.SPLIT, max_norm=0.1),
    "accumulated": Way(4, BucketForm.SPLIT, num_accumulated=2),
    "autocast": Way(4, autocast=True),
    "over gloo": Way(2, BucketForm.SPLIT, backend="gloo"),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_step_trains_what_ddp_trains(ranks: TorchRanks, name: str) -> None:
    way = WAYS[name]
    for losses, apart in ranks.run(stepping.losses_and_model, way):
        assert losses["plan"] == pytest.approx(losses["ddp"], rel=5e-3 if way.autocast else 1e-4)
        far = {one: value for one, value in apart.items() if value > (2e-2 if way.autocast else 2e-4)}
        assert not {one: value for one, value in far.items() if "running" not in one}


def test_ranks_with_different_plans_all_raise_and_change_nothing(ranks: TorchRanks) -> None:
    for text in ranks.run(stepping.other_plan_on_last_rank):
        assert text.startswith("True: ranks [3] have another fusion plan than rank 0")


def test_a_plan_of_another_model_is_refused() -> None:
    model, loss_fn, batch = tied_step()
    plan = make_plan(capture(model, loss_fn, batch).graph, Way(2))
    wider = (torch.cat([batch[0], batch[0]]), torch.cat([batch[1], batch[1]]))
    with pytest.raises(FusionError, match="run hemiola fuse again"):
        compile_step(model, loss_fn, make_optimizer("sgd", model), wider, plan=plan)


def test_an_optimizer_that_lacks_parameters_is_refused() -> None:
    model, loss_fn, batch = tied_step()
    plan = make_plan(capture(model, loss_fn, batch).graph, Way(2))
    some = torch.optim.SGD(list(model.parameters())[:1])
    with pytest.raises(FusionError, match="the optimizer has no parameter"):
        compile_step(model, loss_fn, some, batch, plan=plan)


class RowNorm(torch.optim.Optimizer):
    """Divides by the norm of the whole parameter, so that shards would change it."""

    def __init__(self, parameters: object) -> None:
        super().__init__(parameters, {})  # type: ignore[arg-type]


def test_split_buckets_need_an_optimizer_of_elements() -> None:
    model, loss_fn, batch = tied_step()
    plan = make_plan(capture(model, loss_fn, batch).graph, Way(2, BucketForm.SPLIT))
    with pytest.raises(FusionError, match="RowNorm is not known to change every element by itself"):
        compile_step(model, loss_fn, RowNorm(model.parameters()), batch, plan=plan)


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4).double()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.other(self.one(inputs).double()).float()
        return found


def test_a_bucket_of_two_element_types_is_refused() -> None:
    model, batch = Mixed(), (torch.randn(2, 4), torch.randn(2, 4))
    graph = capture(model, nn.functional.mse_loss, batch).graph
    groups = tuple((one,) for one in range(len(graph.operators)))
    plan = FusionPlan.of(graph, groups, [Bucket((0, 1, 2, 3))])
    with pytest.raises(FusionError, match="one element type"):
        compile_step(model, nn.functional.mse_loss, torch.optim.SGD(model.parameters()), batch, plan=plan)


def test_emulated_computation_takes_its_time_and_changes_nothing() -> None:
    model, loss_fn, batch = tied_step()
    plan = make_plan(capture(model, loss_fn, batch).graph, Way(2))
    before = [one.detach().clone() for one in model.parameters()]
    seconds = [0.0] * len(plan.groups)
    seconds[0] = seconds[-1] = 0.02
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    step = compile_step(model, loss_fn, plain, batch, plan=plan, emulated_seconds=seconds)
    begin = time.perf_counter()
    step(*batch)
    assert time.perf_counter() - begin >= 0.04
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True))
