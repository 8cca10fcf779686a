"""compile_step: a training step that runs as a fusion plan says, on one worker or many.

Groups of operators are compiled by inductor, a bucket of gradients is sent the moment that its last one is there, and the optimizer
runs bucket by bucket as they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from hemiola.errors import FusionError
from hemiola.fusion.plan import BucketForm, FusionPlan
from hemiola.integrations.torch.buckets import AllReduceBucket, SplitBucket, Workers, WorkingBucket
from hemiola.integrations.torch.capture import CapturedStep, LossFunction, capture
from hemiola.integrations.torch.emulated_program import emulate_program
from hemiola.integrations.torch.partial_optimizer import check_knows
from hemiola.integrations.torch.step_program import StepProgram, compile_program

SMALLEST = 1e-6
"""Added to the norm of all gradients before it divides, as PyTorch's clip_grad_norm_ does."""


def compile_step(
    model: nn.Module,
    loss_fn: LossFunction,
    optimizer: Optimizer,
    example_batch: Sequence[Tensor],
    *,
    plan: FusionPlan,
    process_group: Any = None,
    autocast: torch.dtype | None = None,
    max_norm: float | None = None,
    emulated_seconds: Sequence[float] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CompiledStep:
    """A function of a batch that does one training step of ``model`` as ``plan`` says and gives the loss.

    Every worker calls this with the same plan; rank 0's parameters and buffers become everybody's, as in DDP. With ``max_norm``, the norm
    of all gradients is clipped before the optimizer runs. With ``emulated_seconds``, one for each group, computation only takes its time. Nothing is changed before everything has been checked and compiled.
    """
    step = capture(model, loss_fn, example_batch, name=plan.graph_name, autocast=autocast)
    plan.check(step.graph)
    workers = Workers(process_group)
    check_same_plan(plan, workers)
    check_knows(optimizer, _with_gradients(step, model))
    buckets = _make_buckets(step, plan, model, optimizer, workers)
    if emulated_seconds is None:
        given = given_values(step, model, example_batch)
        program = compile_program(step, plan.groups, given, progress, keep_gradients=False)
    else:
        program = emulate_program(step, plan.groups, emulated_seconds)
    _share_state(model, workers)
    for bucket in buckets:
        if isinstance(bucket, SplitBucket):
            bucket.move_parameters()
    return CompiledStep(step, program, plan, model, optimizer, buckets, workers, max_norm)


class CompiledStep:
    """A training step that runs as a plan says; made by `compile_step`."""

    def __init__(
        self,
        step: CapturedStep,
        program: StepProgram,
        plan: FusionPlan,
        model: nn.Module,
        optimizer: Optimizer,
        buckets: Sequence[WorkingBucket],
        workers: Workers,
        max_norm: float | None,
    ) -> None:
        self._step, self._program, self._plan, self._model = step, program, plan, model
        self._optimizer, self._buckets, self._workers, self._max_norm = optimizer, buckets, workers, max_norm
        self._num_accumulated = 0
        self._wait_before, publish_order = _parameter_waits(step, program, plan)
        self._publish_order = [buckets[number] for number in publish_order]
        self._fill_after, self._send_after = _filling_groups(step, program, plan)
        model.register_forward_pre_hook(lambda module, inputs: self.wait_for_parameters())
        model.register_state_dict_pre_hook(  # type: ignore[no-untyped-call]
            lambda module, prefix, keep_vars: self.wait_for_parameters()
        )

    def __call__(self, inputs: Any, targets: Any) -> Tensor:
        """One step on a batch: gradients, their average over all workers, and the optimizer. Gives the loss of this worker."""
        loss = self._gradients((inputs, targets), send=True)
        self._num_accumulated = 0
        if self._max_norm is None:
            for bucket in self._buckets:
                bucket.receive()
                bucket.change(self._optimizer)
        else:
            self._clip(self._max_norm)
        for bucket in self._publish_order:
            bucket.publish()
        return loss

    def accumulate(self, inputs: Any, targets: Any) -> Tensor:
        """Add the gradients of a batch to those of the next call, without sending them. Gives the loss of this worker."""
        loss = self._gradients((inputs, targets), send=False)
        self._num_accumulated += 1
        return loss

    def wait_for_parameters(self) -> None:
        """Wait until all parameters are whole; the module and its state dict do this by themselves."""
        for bucket in self._buckets:
            bucket.wait_for_parameters()

    def _gradients(self, batch: tuple[Any, Any], *, send: bool) -> Tensor:
        add = self._num_accumulated > 0

        def before(group: int) -> None:
            for number in self._wait_before.get(group, ()):
                self._buckets[number].wait_for_parameters()

        def after(group: int, values: list[Any]) -> None:
            for number, member, slot in self._fill_after.get(group, ()):
                self._buckets[number].fill(member, values[slot], add=add)
            for number in self._send_after.get(group, ()) if send else ():
                self._buckets[number].send()

        given = given_values(self._step, self._model, batch)
        loss, *others = self._program.run(given, before, after)
        buffers = dict(self._model.named_buffers())
        for (name, _), value in zip(self._step.new_buffers, others, strict=False):
            buffers[name].copy_(value)
        found: Tensor = loss
        return found

    def _clip(self, max_norm: float) -> None:
        for bucket in self._buckets:
            bucket.receive()
        total = torch.stack([bucket.square_sum() for bucket in self._buckets]).sum()
        if self._workers.size > 1:
            dist.all_reduce(total, group=self._workers.group)
        factor = torch.clamp(max_norm / (total.sqrt() + SMALLEST), max=1.0)
        for bucket in self._buckets:
            bucket.scale(factor)
            bucket.change(self._optimizer)


def given_values(step: CapturedStep, model: nn.Module, batch: Sequence[Any]) -> list[Tensor]:
    """What the traced graph takes: parameters, buffers and the batch."""
    parameters, buffers = dict(model.named_parameters(remove_duplicate=False)), dict(model.named_buffers())
    found = [parameters[name].detach() for name in step.parameters]
    return [*found, *(buffers[name] for name in step.buffers), *batch]


def check_same_plan(plan: FusionPlan, workers: Workers) -> None:
    """Raise on every worker where not all have the same plan."""
    if workers.size == 1:
        return
    found: list[Any] = [None] * workers.size
    dist.all_gather_object(found, plan.digest, group=workers.group)
    others = [rank for rank, digest in enumerate(found) if digest != found[0]]
    if others:
        raise FusionError(
            f"ranks {others} have another fusion plan than rank 0 (digests {found[others[0]]} and {found[0]}); give every rank the same file"
        )


def _with_gradients(step: CapturedStep, model: nn.Module) -> dict[str, nn.Parameter]:
    parameters = dict(model.named_parameters())
    return {one.parameter: parameters[one.parameter] for one in step.graph.gradients}


def _make_buckets(
    step: CapturedStep, plan: FusionPlan, model: nn.Module, optimizer: Optimizer, workers: Workers
) -> list[WorkingBucket]:
    parameters = list(_with_gradients(step, model).values())
    found: list[WorkingBucket] = []
    for bucket in plan.buckets:
        members = [parameters[number] for number in bucket.gradients]
        if bucket.form is BucketForm.SPLIT:
            found.append(SplitBucket(members, bucket.num_parts, workers, optimizer))
        else:
            found.append(AllReduceBucket(members, bucket.num_parts, workers))
    return found


def _share_state(model: nn.Module, workers: Workers) -> None:
    """Rank 0's parameters and buffers become everybody's."""
    if workers.size == 1:
        return
    first = dist.get_global_rank(workers.group, 0) if workers.group is not None else 0
    for value in (*model.parameters(), *model.buffers()):
        dist.broadcast(value.detach(), first, group=workers.group)


def _filling_groups(
    step: CapturedStep, program: StepProgram, plan: FusionPlan
) -> tuple[dict[int, list[tuple[int, int, int]]], dict[int, list[int]]]:
    """What happens after each group: gradients (bucket, member, value) that are there, and buckets that are sent.

    A bucket is sent when its gradients and all buckets before it are there.
    """
    first_gradient, last = 1 + len(step.new_buffers), 0
    fills: dict[int, list[tuple[int, int, int]]] = {}
    sends: dict[int, list[int]] = {}
    for number, bucket in enumerate(plan.buckets):
        for member, gradient in enumerate(bucket.gradients):
            slot = program.leaving[first_gradient + gradient]
            made = program.made_by[slot]
            fills.setdefault(made, []).append((number, member, slot))
            last = max(last, made)
        sends.setdefault(last, []).append(number)
    return fills, sends


def _parameter_waits(
    step: CapturedStep, program: StepProgram, plan: FusionPlan
) -> tuple[dict[int, list[int]], list[int]]:
    """Before which group the parameters of each split bucket must be there, and the buckets in that order."""
    bucket_of = {
        step.graph.gradients[one].parameter: number
        for number, bucket in enumerate(plan.buckets)
        for one in bucket.gradients
        if bucket.form is BucketForm.SPLIT
    }
    first: dict[int, int] = {}
    for slot, name in enumerate(step.first_names):
        if name in bucket_of:
            number = bucket_of[name]
            first[number] = min(first.get(number, len(program.calls)), program.first_reader[slot])
    waits: dict[int, list[int]] = {}
    for number, group in first.items():
        waits.setdefault(group, []).append(number)
    return waits, sorted(first, key=lambda number: (first[number], number))
