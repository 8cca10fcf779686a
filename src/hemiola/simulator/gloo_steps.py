"""Gloo's steps: how long a collective takes over groups of a hierarchical machine when Gloo carries it out.

What PyTorch's Gloo backend sends differs from rings and chains:

| collective | how |
|---|---|
| allreduce, allgather | a ring |
| reducescatter | an all-reduce, of which everybody keeps its part |
| reduce | a ring's reduce-scatter, then all send their parts to the root |
| broadcast | a binomial tree whose last and largest round has the longest way |
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2, prod

import numpy as np

from hemiola.simulator.grouped_steps import GroupedStep, Seconds, StepClock, StepTime
from hemiola.simulator.steps import traffic


class GlooClock(StepClock):
    """Times steps as Gloo carries them out."""

    def ways(self, step: GroupedStep, num_bytes: float) -> list[StepTime]:
        """The one that Gloo takes."""
        match step.kind:
            case "reducescatter":
                return [self.ring(replace(step, kind="allreduce"), num_bytes)]
            case "reduce":
                return [self._ring_and_gather(step, num_bytes)]
            case "broadcast":
                return [self._binomial_tree(step, num_bytes)]
        return [self.ring(step, num_bytes)]

    def _ring_and_gather(self, step: GroupedStep, num_bytes: float) -> StepTime:
        members = self._members(step)
        ring = float(traffic("reducescatter", members))
        factors = ring + 1 - self._inside(step) / members
        return self._scaled(step, num_bytes, factors, members - 1)

    def _binomial_tree(self, step: GroupedStep, num_bytes: float) -> StepTime:
        """In round k, the first 2^k members send to the next 2^k: the first unit sends most."""
        inside, members = self._inside(step), self._members(step)
        rounds = np.ceil(np.log2(np.maximum(members / inside, 1)))
        return self._scaled(step, num_bytes, inside * rounds / self._leaving(inside), ceil(log2(members)))

    def messages(self, kind: str, members: int) -> float:
        """What all members of a group send together, in inputs of a member."""
        if kind == "reduce":
            return (members - 1) * (1 + 1 / members)
        return super().messages(kind, members)

    def _scaled(self, step: GroupedStep, num_bytes: float, factors: Seconds, hops: int) -> StepTime:
        return self._time(step, num_bytes, 1.0, hops).with_factors(factors)

    def _inside(self, step: GroupedStep) -> Seconds:
        """For every level, how many members of a group a unit has."""
        counts = self._counts
        return np.array(
            [float(prod(counts[max(level + 1, step.first) : step.end])) for level in range(len(counts))]
        )

    def _leaving(self, inside: Seconds) -> Seconds:
        """For every level, by how many links at once the members of a unit send."""
        links = [level.link for level in self.system.levels]
        return np.array(
            [min(link.num if link else 1.0, max(one, 1.0)) for link, one in zip(links, inside, strict=True)]
        )
