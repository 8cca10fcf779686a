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
import numpy.typing as npt

from hemiola.cost.estimates.grouped_steps import GroupedStep, Seconds, StepClock, StepTime, Work
from hemiola.cost.estimates.steps import traffic

Numbers = npt.NDArray[np.int64]


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

    def work(self, kind: str, members: int) -> Work:
        """Every message is copied into a socket and out of it, which is what the cores have to do."""
        n = members
        match kind:
            case "allreduce":
                return Work(2 * (n - 1), 0)
            case "reduce":
                return Work((n - 1) * (1 + 1 / n), 0)
            case "allgather":
                return Work(n * (n - 1), 0)
        return Work(n - 1, 0)

    def _ring_and_gather(self, step: GroupedStep, num_bytes: float) -> StepTime:
        members = self._members(step)
        ring = float(traffic("reducescatter", members))
        factors = ring + 1 - self._inside(step) / members
        return self._scaled(step, num_bytes, factors, members - 1)

    def _binomial_tree(self, step: GroupedStep, num_bytes: float) -> StepTime:
        """In round k, each of the first 2^k members sends to the one that is 2^k further on, where there is one."""
        members = self._members(step)
        inside = self._inside(step)
        child = np.arange(1, members)
        parent = child - 2 ** np.floor(np.log2(child)).astype(np.int64)
        crossings = [self._most_crossings(parent, child, int(one)) for one in inside]
        return self._scaled(
            step,
            num_bytes,
            np.array(crossings) / self._leaving(inside),
            ceil(log2(members)) if members > 1 else 0,
        )

    @staticmethod
    def _most_crossings(parent: Numbers, child: Numbers, size: int) -> float:
        """How many messages leave or enter the busiest of the units that have ``size`` neighbouring members each."""
        crosses = parent // size != child // size
        ways = [np.bincount(ends[crosses] // size, minlength=1).max() for ends in (parent, child)]
        return float(max(ways))

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
