"""A step whose computation is emulated: groups sleep for given times and give gradients of zeros; everything else is real.

So plans for a device that is not at hand are carried out over a real network, while computation costs the processor nothing, as on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from hemiola.fusion.plan import Group
from hemiola.integrations.torch.capture import CapturedStep
from hemiola.integrations.torch.group_module import build_groups
from hemiola.integrations.torch.step_program import GroupCall, StepProgram, link_calls, number_values

SPIN_SECONDS = 1e-4
"""Sleeping ends late by up to about this; the end of a group is waited for."""


class EmulatedDevice:
    """Runs one group after another. A group begins when the one before it has ended, or now if that was earlier."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def run(self, seconds: float) -> None:
        """Return when the device has worked for so long."""
        self._free_at = max(self._free_at, time.perf_counter()) + seconds
        if (left := self._free_at - time.perf_counter() - SPIN_SECONDS) > 0:
            time.sleep(left)
        while time.perf_counter() < self._free_at:
            pass


def emulate_program(step: CapturedStep, groups: Sequence[Group], seconds: Sequence[float]) -> StepProgram:
    """The groups of a plan, which take these seconds. The loss and new buffers are zeros."""
    modules = build_groups(step, groups)
    numbers = number_values(step, modules)
    device, leaving = EmulatedDevice(), set(step.leaving)
    calls = []
    for module, length in zip(modules, seconds, strict=True):
        made = [_zeros(node) if node in leaving else None for node in module.outputs]
        reads = tuple(numbers[node] for node in module.inputs)
        gives = tuple(numbers[node] for node in module.outputs)
        calls.append(GroupCall(_sleeper(device, length, made), reads, gives, ()))
    return link_calls(step, calls, numbers)


def _zeros(node: fx.Node) -> torch.Tensor:
    value = node.meta["val"]
    return torch.zeros(tuple(value.shape), dtype=value.dtype)


def _sleeper(device: EmulatedDevice, seconds: float, made: list[Any]) -> Any:
    def run(values: list[Any]) -> Sequence[Any]:
        device.run(seconds)
        return made

    return run
