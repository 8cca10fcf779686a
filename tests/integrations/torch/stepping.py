"""Run on every rank: steps that run as fusion plans say, beside DDP or eager mode on the same batches."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from hemiola.errors import FusionError
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan
from hemiola.integrations.torch.capture import capture
from hemiola.integrations.torch.compile_step import compile_step
from hemiola.integrations.torch.measure_collectives import measure_collectives
from integrations.torch.steps import Batch, Loss, tied_step

STEPS = 4


@dataclass(frozen=True)
class Way:
    """How a step is carried out."""

    bucket_size: int
    """Gradients in a bucket."""
    form: BucketForm = BucketForm.ALLREDUCE
    num_parts: int = 1
    optimizer: str = "adamw"
    max_norm: float | None = None
    num_accumulated: int = 0
    autocast: bool = False
    backend: str = "hemiola"


def make_plan(graph: OpGraph, way: Way) -> FusionPlan:
    """Every operator alone, and buckets of some gradients in the order in which they are made, every second one of the form."""
    made = [graph.producers[one.tensor] for one in graph.gradients]
    order = sorted(range(len(made)), key=made.__getitem__)
    parts = [order[low : low + way.bucket_size] for low in range(0, len(order), way.bucket_size)]
    forms = [way.form if number % 2 == 0 else BucketForm.ALLREDUCE for number in range(len(parts))]
    buckets = tuple(Bucket(tuple(part), form, way.num_parts) for part, form in zip(parts, forms, strict=True))
    return FusionPlan.of(graph, ((one,) for one in range(len(graph.operators))), buckets)


def make_optimizer(name: str, model: nn.Module) -> Optimizer:
    """Two groups of parameters, so that hyperparameters differ inside of a bucket."""
    plain = [one for one in model.parameters() if one.dim() == 1]
    others = [one for one in model.parameters() if one.dim() != 1]
    groups = [{"params": others, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=0.05, momentum=0.9)
    return torch.optim.AdamW(groups, lr=0.01, eps=1e-3)  # rounding of gradients near zero stays small


def batches(step: int, count: int) -> list[Batch]:
    """Different ones on every rank."""
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    return [
        (torch.randint(20, (4, 6), generator=generator), torch.randint(20, (4, 6), generator=generator))
        for _ in range(count)
    ]


def losses_and_model(way: Way) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Losses of DDP and of the plan on the same batches, and how far their parameters and buffers are apart at the end."""
    model, loss_fn, batch = tied_step(dropout=0.0)
    group = dist.new_group(backend=way.backend)
    kind = torch.bfloat16 if way.autocast else None
    plan = make_plan(capture(model, loss_fn, batch, autocast=kind).graph, way)
    other = copy.deepcopy(model)
    if dist.get_rank() > 0:
        with torch.no_grad():
            for one in model.parameters():
                one.add_(1.0)  # rank 0's become everybody's
    optimizer = make_optimizer(way.optimizer, model)
    step = compile_step(
        model, loss_fn, optimizer, batch, plan=plan, process_group=group, autocast=kind, max_norm=way.max_norm
    )
    expected = _train_with_ddp(other, loss_fn, way)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    found = []
    for number in range(STEPS):
        *first, last = batches(number, 1 + way.num_accumulated)
        losses = [step.accumulate(*one) for one in first]
        found.append(float(sum([*losses, step(*last)])))
        schedule.step()
    apart = {
        name: float((one.float() - other.state_dict()[name].float()).abs().max())
        for name, one in model.state_dict().items()
    }
    return {"plan": found, "ddp": expected}, apart


def _train_with_ddp(model: nn.Module, loss_fn: Loss, way: Way) -> list[float]:
    wrapped = DistributedDataParallel(model, process_group=dist.new_group(backend="gloo"))
    optimizer = make_optimizer(way.optimizer, model)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    losses = []
    for number in range(STEPS):
        *first, last = batches(number, 1 + way.num_accumulated)
        with wrapped.no_sync():
            total = sum(_backward(wrapped, loss_fn, one, way) for one in first)
        total += _backward(wrapped, loss_fn, last, way)
        if way.max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), way.max_norm)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(total)
    return losses


def _backward(model: Callable[[Tensor], Tensor], loss_fn: Loss, batch: Batch, way: Way) -> float:
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way.autocast):
        loss = loss_fn(model(batch[0]), batch[1])
    torch.autograd.backward(loss)
    return float(loss.detach())


def other_plan_on_last_rank() -> str:
    """The message of every rank where the last one has another plan, and whether its parameters are as before."""
    model, loss_fn, batch = tied_step(seed=dist.get_rank())
    before = copy.deepcopy(model.state_dict())
    size = 3 if dist.get_rank() == dist.get_world_size() - 1 else 2
    plan = make_plan(capture(model, loss_fn, batch).graph, Way(size))
    try:
        compile_step(model, loss_fn, make_optimizer("sgd", model), batch, plan=plan)
    except FusionError as error:
        same = all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
        return f"{same}: {error}"
    return "no error"


def measured() -> tuple[dict[int, float], float, float, list[int]]:
    """All-reduces by bytes, what computation loses and a copy takes for a byte, and the sizes of the other collectives."""
    found = measure_collectives(largest_bytes=1 << 20, rounds=3)
    sizes = [*found.reduce_scatter, *found.all_gather]
    return found.allreduce, found.contention_seconds_per_byte, found.copy_seconds_per_byte, sizes
