"""Running a user's optimizer on some of its parameters, or on shards of them, with the hyperparameters that it has at the moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hemiola.errors import FusionError

ELEMENTWISE = (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.NAdam,
    torch.optim.RAdam, torch.optim.Adamax, torch.optim.Adadelta,
)  # fmt: skip
"""Change an element by its own gradient and state only, so that a shard of a parameter can be changed by itself."""


def step_some(optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> None:
    """One step of an optimizer on some of its parameters; their gradients are in ``grad``."""
    chosen, groups = {id(one) for one in parameters}, optimizer.param_groups
    parts = [{**group, "params": [one for one in group["params"] if id(one) in chosen]} for group in groups]
    optimizer.param_groups = [part for part in parts if part["params"]]
    try:
        optimizer.step()
    finally:
        optimizer.param_groups = groups


def check_knows(optimizer: Optimizer, parameters: dict[str, nn.Parameter]) -> None:
    """Raise where the optimizer lacks a parameter of the step."""
    known = {id(one) for group in optimizer.param_groups for one in group["params"]}
    missing = [name for name, one in parameters.items() if id(one) not in known]
    if missing:
        raise FusionError(
            f"the optimizer has no parameter {missing[0]!r}, which the step gives a gradient ({len(missing)} are missing);"
            " give it all parameters that need gradients, or set requires_grad to False"
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring elements of a shard that belong to one group of the optimizer."""

    group: int
    low: int
    high: int


class ShardOptimizer:
    """An optimizer of the user's kind on a shard of some parameters that lie one behind another in a flat buffer."""

    def __init__(
        self, optimizer: Optimizer, parameters: Sequence[nn.Parameter], shard: Tensor, first: int
    ) -> None:
        """The shard begins at element ``first`` of the flat buffer of all parameters."""
        if not isinstance(optimizer, ELEMENTWISE):
            raise FusionError(
                f"{type(optimizer).__name__} is not known to change every element by itself, so it cannot run on shards; use buckets"
                " of the form 'allreduce', or an optimizer such as SGD, Adam or AdamW"
            )
        if any(optimizer.state.get(one) for one in parameters):
            raise FusionError(
                "the optimizer has taken steps already, and its state is not cut into shards; make the step with a new optimizer, or"
                " use buckets of the form 'allreduce'"
            )
        self._users = optimizer
        runs = _runs(optimizer, parameters, first, first + shard.numel())
        self._parts = [(run, nn.Parameter(shard[run.low - first : run.high - first])) for run in runs]
        groups = [
            {**_without_parameters(optimizer.param_groups[run.group]), "params": [part]}
            for run, part in self._parts
        ]
        self._first = first
        self._optimizer = type(optimizer)(groups) if groups else None  # type: ignore[call-arg, unused-ignore]

    def step(self, gradients: Tensor) -> None:
        """One step with the gradients of the shard."""
        if self._optimizer is None:
            return
        for (run, part), group in zip(self._parts, self._optimizer.param_groups, strict=True):
            part.grad = gradients[run.low - self._first : run.high - self._first]
            group.update(_without_parameters(self._users.param_groups[run.group]))
        self._optimizer.step()


def _without_parameters(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _runs(optimizer: Optimizer, parameters: Sequence[nn.Parameter], low: int, high: int) -> list[_Run]:
    """The groups of the elements from ``low`` to ``high``; padding after the last parameter belongs to none."""
    group_of = {
        id(one): number for number, group in enumerate(optimizer.param_groups) for one in group["params"]
    }
    found: list[_Run] = []
    begin = 0
    for parameter in parameters:
        end, group = begin + parameter.numel(), group_of[id(parameter)]
        first, last = max(begin, low), min(end, high)
        if first < last and found and found[-1].group == group and found[-1].high == first:
            found[-1] = _Run(group, found[-1].low, last)
        elif first < last:
            found.append(_Run(group, first, last))
        begin = end
    return found
