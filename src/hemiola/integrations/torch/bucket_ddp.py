"""bucket: an existing DDP model whose gradients travel in the buckets of a fusion plan, on any backend.

DDP keeps its module, its buffers and its checks; only the averaging of gradients is done here, by hooks that run when a gradient is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hemiola.errors import FusionError
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan
from hemiola.integrations.torch.buckets import AllReduceBucket, Workers
from hemiola.integrations.torch.compile_step import check_same_plan
from hemiola.integrations.torch.private_api import after_backward, when_accumulated

TRACED = "gradient "
"""How gradients of a trace are called, which does not know the names of parameters; they are known by their order."""


def bucket(model: DistributedDataParallel, plan: FusionPlan) -> DistributedDataParallel:
    """Send the gradients of a DDP model in the buckets of a plan from now on; gives the same model.

    A plan that was made from a trace knows gradients by the order in which backward makes them: then one step runs in DDP's own buckets, to see
    that order.
    """
    if not isinstance(model, DistributedDataParallel):
        raise FusionError(f"bucket takes a DistributedDataParallel model; found {type(model).__name__}")
    split = [number for number, one in enumerate(plan.buckets) if one.form is BucketForm.SPLIT]
    if split:
        raise FusionError(
            f"bucket {split[0]} of the plan is split into reduce-scatter and all-gather, which DDP's optimizer does not know; use"
            " compile_step, or hemiola fuse --no-split"
        )
    check_same_plan(plan, Workers(model.process_group))
    parameters = {name: one for name, one in model.module.named_parameters() if one.requires_grad}
    if plan.gradients and plan.gradients[0][0].startswith(TRACED):
        _OrderRecorder(model, plan, parameters)
    else:
        BucketedGradients(model, plan.buckets, _by_name(plan, parameters))
    return model


def _by_name(plan: FusionPlan, parameters: dict[str, nn.Parameter]) -> list[nn.Parameter]:
    """The parameter of each gradient of the plan."""
    found = {name: _num_bytes(one) for name, one in parameters.items()}
    if found != dict(plan.gradients):
        names = sorted(found.items() ^ dict(plan.gradients).items())
        raise FusionError(
            f"the plan is for a model with other parameters: {names[0][0]!r} and {len(names) - 1} more differ in name or bytes; run"
            " hemiola fuse again"
        )
    return [parameters[name] for name, _ in plan.gradients]


def _num_bytes(parameter: nn.Parameter) -> int:
    return int(parameter.numel()) * int(parameter.element_size())


class _OrderRecorder:
    """Sees one backward pass under DDP, and then makes the buckets by the order of its gradients."""

    def __init__(
        self, model: DistributedDataParallel, plan: FusionPlan, parameters: dict[str, nn.Parameter]
    ) -> None:
        self._model, self._plan, self._order = model, plan, list[nn.Parameter]()
        self._handles = [when_accumulated(one, self._seen) for one in parameters.values()]

    def _seen(self, parameter: Tensor) -> None:
        assert isinstance(parameter, nn.Parameter)
        if not self._order:
            after_backward(self._finish)
        self._order.append(parameter)

    def _finish(self) -> None:
        if not self._model.require_backward_grad_sync:
            self._order.clear()  # under no_sync; the next backward pass counts
            return
        for handle in self._handles:
            handle.remove()
        sizes = [_num_bytes(one) for one in self._order]
        if sizes != [size for _, size in self._plan.gradients]:
            raise FusionError(
                "the plan was made from a trace whose gradients have other sizes, or came in another order, than those of this model;"
                " record the trace again"
            )
        BucketedGradients(self._model, self._plan.buckets, self._order)


class BucketedGradients:
    """Averages the gradients of a DDP model in buckets of our own; DDP's averaging is off."""

    def __init__(
        self, model: DistributedDataParallel, buckets: Sequence[Bucket], parameters: Sequence[nn.Parameter]
    ) -> None:
        self._workers, self._paused, self._next = Workers(model.process_group), False, 0
        members = [[parameters[number] for number in one.gradients] for one in buckets]
        self._buckets = [
            AllReduceBucket(some, one.num_parts, self._workers)
            for some, one in zip(members, buckets, strict=True)
        ]
        self._members, self._waiting = members, [set[int]() for _ in buckets]
        self._place = {
            id(one): (number, member)
            for number, some in enumerate(members)
            for member, one in enumerate(some)
        }
        self._is_under_way = False
        model.require_backward_grad_sync = False
        model.no_sync = self._no_sync  # type: ignore[method-assign]
        model.register_forward_hook(self._share_buffers_next)
        for one in parameters:
            when_accumulated(one, self._gradient_is_there)

    @contextmanager
    def _no_sync(self) -> Iterator[None]:
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def _share_buffers_next(self, model: nn.Module, inputs: Any, outputs: Any) -> None:
        """DDP broadcasts buffers only after a step whose gradients were averaged, and believes that no step's are."""
        model.require_forward_param_sync = not self._paused  # type: ignore[assignment]

    def _gradient_is_there(self, parameter: Tensor) -> None:
        if self._paused:
            return
        if not self._is_under_way:
            self._is_under_way, self._next = True, 0
            self._waiting = [set(range(len(some))) for some in self._members]
            after_backward(self._finish)
        number, member = self._place[id(parameter)]
        assert parameter.grad is not None
        self._buckets[number].fill(member, parameter.grad, add=False)
        self._waiting[number].discard(member)
        while self._next < len(self._buckets) and not self._waiting[self._next]:
            self._send_next()

    def _send_next(self) -> None:
        self._buckets[self._next].send()
        self._next += 1

    def _finish(self) -> None:
        """Parameters that this worker did not use count as zeros, and every gradient is the average afterwards."""
        self._is_under_way = False
        while self._next < len(self._buckets):
            for member in self._waiting[self._next]:
                self._buckets[self._next].fill_with_zeros(member)
            self._send_next()
        for one in self._buckets:
            one.receive()
