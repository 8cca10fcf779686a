"""RooflineTimes: groups on a device that is a roofline, with a compiler that fuses all it may inside a group.

A group is a call. Inside it every product, convolution and opaque operator is a kernel, and the other operators are fused with those
that they are connected to while no kernel of the former kind lies between. A kernel takes its launch and the longer of its arithmetic
and its memory traffic: what it reads from outside, and what somebody outside reads of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hemiola.fusion.graph import OpGraph, WorkKind
from hemiola.fusion.group_times import Seconds
from hemiola.fusion.plan import Group


@dataclass(frozen=True, slots=True)
class Roofline:
    """A device."""

    flops_per_second: float
    bytes_per_second: float
    kernel_seconds: float
    """To start a kernel."""
    call_seconds: float
    """To call a group."""


CPU_CORE = Roofline(60e9, 8e9, 3e-6, 20e-6)
"""About one core of a server."""
GPU = Roofline(8e12, 400e9, 4e-6, 8e-6)
"""About a GPU of the paper's clusters."""


@dataclass(frozen=True)
class RooflineTimes:
    """The seconds of groups of one graph."""

    graph: OpGraph
    device: Roofline
    _known: dict[Group, float] = field(default_factory=dict)

    def seconds(self, groups: Sequence[Group]) -> Seconds:
        """Of each group, in order."""
        for group in groups:
            if group not in self._known:
                self._known[group] = self._group_seconds(group)
        return np.array([self._known[group] for group in groups])

    @property
    def num_estimated(self) -> int:
        """Different groups that were asked for."""
        return len(self._known)

    @cached_property
    def _readers(self) -> list[list[int]]:
        """The operators that read each tensor; one that does not exist where the step's result is read."""
        found: list[list[int]] = [[] for _ in self.graph.tensors]
        for number, operator in enumerate(self.graph.operators):
            for tensor in operator.inputs:
                found[tensor].append(number)
        for tensor in self.graph.leaving:
            found[tensor].append(len(self.graph.operators))
        return found

    def _group_seconds(self, group: Group) -> float:
        kernels: dict[int, list[int]] = {}
        for one, kernel in self._kernel_of(group).items():
            kernels.setdefault(kernel, []).append(one)
        return self.device.call_seconds + sum(map(self._kernel_seconds, kernels.values()))

    def _kernel_of(self, group: Group) -> dict[int, int]:
        """The kernel of each operator, named by one of its operators.

        The level of an operator is the number of steps between kernels on the longest way to it inside the group. Operators
        of one level that read each other are one kernel; others of that level never wait for it, so no cycle arises.
        """
        operators, before = self.graph.operators, self.graph.predecessors
        level: dict[int, int] = {}
        kernel: dict[int, int] = {}
        for one in group:
            alone = operators[one].work.is_kernel_of_its_own
            inside = [other for other in before[one] if other in level]
            height = {
                other: level[other] + (alone or operators[other].work.is_kernel_of_its_own)
                for other in inside
            }
            level[one] = max(height.values(), default=0)
            kernel[one] = one
            for other in inside:
                if height[other] == level[other] == level[one]:
                    kernel[_root(kernel, other)] = _root(kernel, one)
        return {one: _root(kernel, one) for one in group}

    def _kernel_seconds(self, kernel: list[int]) -> float:
        operators = [self.graph.operators[one] for one in kernel]
        if all(operator.work is WorkKind.VIEW for operator in operators):
            return 0.0
        members, tensors = set(kernel), self.graph.tensors
        made = {tensor for operator in operators for tensor in operator.outputs}
        moved = {tensor for operator in operators for tensor in operator.inputs if tensor not in made}
        moved |= {tensor for tensor in made if any(one not in members for one in self._readers[tensor])}
        traffic = sum(tensors[tensor].num_bytes for tensor in moved)
        flops = sum(operator.flops for operator in operators)
        device = self.device
        return device.kernel_seconds + max(flops / device.flops_per_second, traffic / device.bytes_per_second)


def _root(parents: dict[int, int], one: int) -> int:
    while parents[one] != one:
        parents[one] = parents[parents[one]]
        one = parents[one]
    return one
