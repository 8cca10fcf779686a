"""Buckets at work: gradients in one flat buffer, averaged over all workers, and the parameters that they change.

Life of a bucket in a step: `fill` with each gradient, `send`, `receive`, `change` the parameters, and, for split buckets, `publish` them
and `wait_for_parameters` before the next step reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from hemiola.errors import FusionError
from hemiola.integrations.torch.flat_collectives import all_gather, reduce_scatter
from hemiola.integrations.torch.partial_optimizer import ShardOptimizer, step_some


class WorkingBucket(Protocol):
    """What both forms of buckets do."""

    def fill(self, member: int, gradient: Tensor, *, add: bool) -> None:
        """Copy the gradient of one parameter on this worker, or add it to the one that is there."""

    def send(self) -> None:
        """Begin to average over all workers."""

    def receive(self) -> None:
        """Wait until the average is there."""

    def square_sum(self) -> Tensor:
        """The sum of the squares of this worker's part of the averaged gradients."""

    def scale(self, factor: Tensor) -> None:
        """Multiply the averaged gradients."""

    def change(self, optimizer: Optimizer) -> None:
        """Take the optimizer's step."""

    def publish(self) -> None:
        """Begin to send changed parameters to all workers."""

    def wait_for_parameters(self) -> None:
        """Wait until the parameters of all workers are there."""


class Workers:
    """The process group of a step; without torch.distributed there is one worker."""

    def __init__(self, group: Any = None) -> None:
        on = dist.is_available() and dist.is_initialized()
        self.group = group
        self.size = dist.get_world_size(group) if on else 1
        self.rank = dist.get_rank(group) if on else 0


def flat_views(flat: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """The place of each parameter in a flat buffer, in its shape."""
    ends, views = 0, []
    for one in parameters:
        views.append(flat[ends : ends + one.numel()].view(one.shape))
        ends += one.numel()
    return views


def _one_kind(parameters: Sequence[nn.Parameter]) -> tuple[torch.dtype, torch.device]:
    kinds = {(one.dtype, one.device) for one in parameters}
    if len(kinds) != 1:
        raise FusionError(
            f"a bucket holds parameters of {sorted(map(str, kinds))}; those of one bucket have one element type and one device"
        )
    return kinds.pop()


def _cut(flat: Tensor, num_parts: int) -> list[Tensor]:
    """Neighbouring parts of nearly equal length, none empty."""
    return list(flat.tensor_split(min(num_parts, flat.numel())))


class AllReduceBucket:
    """Gradients that are averaged by all-reduces; every worker changes all parameters."""

    def __init__(self, parameters: Sequence[nn.Parameter], num_parts: int, workers: Workers) -> None:
        dtype, device = _one_kind(parameters)
        self._parameters, self._workers = tuple(parameters), workers
        self._flat = torch.zeros(sum(one.numel() for one in parameters), dtype=dtype, device=device)
        self._views, self._parts = flat_views(self._flat, parameters), _cut(self._flat, num_parts)
        self._works: list[Any] = []

    def fill(self, member: int, gradient: Tensor, *, add: bool) -> None:
        _fill(self._views[member], gradient, 1 / self._workers.size, add=add)

    def fill_with_zeros(self, member: int) -> None:
        """For a parameter that this worker did not use."""
        self._views[member].zero_()

    def send(self) -> None:
        if self._workers.size > 1:
            self._works = [
                dist.all_reduce(part, group=self._workers.group, async_op=True) for part in self._parts
            ]

    def receive(self) -> None:
        for work in self._works:
            work.wait()
        self._works = []
        for parameter, view in zip(self._parameters, self._views, strict=True):
            parameter.grad = view

    def square_sum(self) -> Tensor:
        return self._flat.square().sum() / self._workers.size

    def scale(self, factor: Tensor) -> None:
        self._flat.mul_(factor)

    def change(self, optimizer: Optimizer) -> None:
        step_some(optimizer, self._parameters)

    def publish(self) -> None:
        """Nothing to do: every worker changed its own."""

    def wait_for_parameters(self) -> None:
        """Nothing to do."""


class SplitBucket:
    """Gradients that are averaged by reduce-scatters; a worker changes its shard, and all-gathers bring the others'.

    Parameters become views of one flat buffer, and have no ``grad``. Every part is a reduce-scatter and an all-gather of its own.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], num_parts: int, workers: Workers, optimizer: Optimizer
    ) -> None:
        dtype, device = _one_kind(parameters)
        self._parameters, self._workers = tuple(parameters), workers
        length = sum(one.numel() for one in parameters)
        num_parts = max(1, min(num_parts, length // workers.size))
        piece = -(-length // (num_parts * workers.size))
        self._gradients = torch.zeros(piece * num_parts * workers.size, dtype=dtype, device=device)
        self._values = torch.zeros_like(self._gradients)
        self._views = flat_views(self._gradients, parameters)
        self._gradient_parts = list(self._gradients.chunk(num_parts))
        self._value_parts = list(self._values.chunk(num_parts))
        self._shards = [torch.zeros(piece, dtype=dtype, device=device) for _ in range(num_parts)]
        first = [(number * workers.size + workers.rank) * piece for number in range(num_parts)]
        self._own = [self._values[low : low + piece] for low in first]
        self._optimizers = [
            ShardOptimizer(optimizer, parameters, own, low) for own, low in zip(self._own, first, strict=True)
        ]
        self._works: list[Any] = []
        self._gathers: list[Any] = []

    def move_parameters(self) -> None:
        """From now on the parameters lie in the flat buffer; called once, when nothing can fail any more."""
        for parameter, view in zip(self._parameters, flat_views(self._values, self._parameters), strict=True):
            view.copy_(parameter.detach())
            parameter.data = view
            parameter.grad = None

    def fill(self, member: int, gradient: Tensor, *, add: bool) -> None:
        _fill(self._views[member], gradient, 1 / self._workers.size, add=add)

    def send(self) -> None:
        pairs = zip(self._shards, self._gradient_parts, strict=True)
        if self._workers.size == 1:
            for shard, part in pairs:
                shard.copy_(part)
        else:
            self._works = [
                reduce_scatter(shard, part, self._workers.group, async_op=True) for shard, part in pairs
            ]

    def receive(self) -> None:
        for work in self._works:
            work.wait()
        self._works = []

    def square_sum(self) -> Tensor:
        return torch.stack([shard.square().sum() for shard in self._shards]).sum()

    def scale(self, factor: Tensor) -> None:
        for shard in self._shards:
            shard.mul_(factor)

    def change(self, optimizer: Optimizer) -> None:
        for shard_optimizer, shard in zip(self._optimizers, self._shards, strict=True):
            shard_optimizer.step(shard)

    def publish(self) -> None:
        if self._workers.size > 1:
            self._gathers = [
                all_gather(part, own, self._workers.group, async_op=True)
                for part, own in zip(self._value_parts, self._own, strict=True)
            ]

    def wait_for_parameters(self) -> None:
        for work in self._gathers:
            work.wait()
        self._gathers = []


def _fill(view: Tensor, gradient: Tensor, factor: float, *, add: bool) -> None:
    """Copy or add a scaled gradient, in one pass."""
    if add:
        view.add_(gradient, alpha=factor)
    elif factor == 1.0:
        view.copy_(gradient)
    else:
        torch.mul(gradient, factor, out=view)
