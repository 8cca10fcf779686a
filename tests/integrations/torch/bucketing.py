"""Run on every rank: DDP and FSDP2 in the buckets of a plan, beside the same without a plan."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from hemiola.errors import FusionError
from hemiola.fusion.plan import Bucket, FusionPlan
from hemiola.integrations.torch.bucket_ddp import bucket
from hemiola.integrations.torch.capture import capture
from hemiola.integrations.torch.shard_by_plan import shard
from integrations.torch.stepping import Way, batches, make_optimizer, make_plan
from integrations.torch.steps import tied_step, word_loss

STEPS = 4


def train(wrapped: nn.Module, model: nn.Module, *, no_sync: bool = False) -> list[float]:
    """Losses of some steps, each with one more batch without averaging where asked for."""
    optimizer = make_optimizer("sgd", model)
    losses = []
    for number in range(STEPS):
        first, last = batches(number, 2)
        if no_sync:
            with wrapped.no_sync():  # type: ignore[operator]
                torch.autograd.backward(word_loss(wrapped(first[0]), first[1]))
        loss = word_loss(wrapped(last[0]), last[1])
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad(set_to_none=number % 2 == 0)
        losses.append(float(loss.detach()))
    return losses


def buckets_of_ddp(backend: str, no_sync: bool, traced: bool) -> tuple[list[float], list[float], float]:
    """Losses with and without the plan, and how far buffers and parameters are apart at the end."""
    model, loss_fn, batch = tied_step(dropout=0.0)
    plan = make_plan(capture(model, loss_fn, batch).graph, Way(3, num_parts=2))
    other = copy.deepcopy(model)
    wrapped = DistributedDataParallel(model, process_group=dist.new_group(backend=backend))
    bucket(wrapped, traced_plan(model) if traced else plan)
    plain = DistributedDataParallel(other, process_group=dist.new_group(backend="gloo"))
    found = train(wrapped, model, no_sync=no_sync), train(plain, other, no_sync=no_sync)
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    return *found, max(float((one.float() - two.float()).abs().max()) for one, two in pairs)


def traced_plan(model: nn.Module) -> FusionPlan:
    """As from a trace: gradients are known by their order in backward, and by their bytes."""
    probe, order = copy.deepcopy(model), list[int]()
    for one in probe.parameters():
        hook: Any = one.register_post_accumulate_grad_hook
        hook(lambda parameter: order.append(4 * parameter.numel()))
    (inputs, targets), *_ = batches(0, 1)
    torch.autograd.backward(word_loss(probe(inputs), targets))
    half = len(order) // 2
    parts = (Bucket(tuple(range(half))), Bucket(tuple(range(half, len(order)))))
    gradients = tuple((f"gradient {number}", size) for number, size in enumerate(order))
    return FusionPlan("trace.json", "0" * 32, gradients, (), parts)


class Forked(nn.Module):
    """Two branches; a rank takes one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.even, self.odd, self.both = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        branch = self.odd if dist.get_rank() % 2 else self.even
        found: Tensor = self.both(branch(inputs))
        return found


def unused_on_some_ranks() -> list[float]:
    """The gradients after a step in which every rank left out one branch."""
    torch.manual_seed(3)
    model = Forked()
    gradients = tuple((name, 4 * one.numel()) for name, one in model.named_parameters())
    buckets = (Bucket((4, 5)), Bucket((0, 2)), Bucket((1, 3)))
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)
    bucket(wrapped, FusionPlan("forked", "0" * 32, gradients, (), buckets))
    torch.autograd.backward(wrapped(torch.ones(2, 4)).sum())
    return [float(one.grad.sum()) for one in model.parameters() if one.grad is not None]


def buckets_of_fsdp() -> tuple[list[float], list[float], int]:
    """Losses of FSDP2 with and without the plan, and how many groups of parameters the plan makes."""
    torch.manual_seed(3)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)) for _ in range(4)))
    other = copy.deepcopy(model)
    batch = (torch.randn(2, 8), torch.randn(2, 8))
    plan = make_plan(capture(model, nn.functional.mse_loss, batch).graph, Way(6))
    shard(model, plan)
    fully_shard(other)
    groups = sum(1 for one in model.modules() if type(one).__name__.startswith("FSDP"))
    return _train_regression(model), _train_regression(other), groups


def _train_regression(model: nn.Module) -> list[float]:
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for number in range(STEPS):
        generator = torch.Generator().manual_seed(100 * number + dist.get_rank())
        loss = nn.functional.mse_loss(
            model(torch.randn(4, 8, generator=generator)), torch.randn(4, 8, generator=generator)
        )
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def plan_of_another_model() -> str:
    """The message."""
    model, loss_fn, batch = tied_step(dropout=0.0)
    plan = make_plan(capture(model, loss_fn, batch).graph, Way(3))
    gradients = (("elsewhere", 4), *plan.gradients[1:])
    try:
        bucket(DistributedDataParallel(model), replace(plan, gradients=gradients))
    except FusionError as error:
        return str(error)
    return "no error"
