"""Grouped steps: how long one collective takes over groups of a hierarchical machine, in closed form, on any levels.

A step runs in groups of devices whose digits vary over some neighbouring levels (``first`` to ``end``); all groups run at
once. A group's ring enters and leaves every unit that has members of it inside and outside once. With T the bytes that a
ring moves over each of its links (`steps.traffic`), the links of a unit carry T for every group that crosses it; each
crossing leaves by the link of its own sub-unit. Every level is a resource of its own, and so are adding, copying, and cores
that do both in turn, of a device or of a host, whichever takes longer: steps that wait for each other take the sum over the steps of their busiest resource, steps whose chunks
follow each other closely take the busiest sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, log2, prod

import numpy as np
import numpy.typing as npt

from hemiola.cost.estimates.steps import traffic
from hemiola.topology.system import ProtocolCosts, System

Seconds = npt.NDArray[np.float64]

TREES = ("allreduce", "reduce", "broadcast")
"""Steps that can run on two complementary trees as well."""
TREES_PER_UNIT = 1.5
"""A unit with several members has more than one edge of a tree to the outside; replays show up to this much more."""


@dataclass(frozen=True, slots=True)
class GroupedStep:
    """One collective over all groups whose members differ in the digits of some levels."""

    kind: str
    first: int
    """The outermost level whose digits vary inside a group."""
    end: int
    """One past the innermost."""
    masters: bool = False
    """Only the groups of devices whose digits from ``end`` on are zero."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the members of a group do beside sending, in inputs of a member."""

    copied: float
    added: float


@dataclass(frozen=True, slots=True)
class StepTime:
    """What a step needs of every resource, and its latency."""

    loads: Seconds
    """Seconds that the links of each level are busy, then those of adding, of copying, and of cores that do both."""
    latency: float

    @property
    def seconds(self) -> float:
        """The step alone."""
        return float(self.loads.max()) + self.latency

    def with_factors(self, of_levels: Seconds) -> StepTime:
        """The same with so many times as much on the links of each level."""
        rest = np.ones(len(self.loads) - len(of_levels))
        return StepTime(self.loads * np.concatenate([of_levels, rest]), self.latency)


@dataclass(frozen=True)
class StepClock:
    """Times steps on a system whose units are all alike."""

    system: System

    @cached_property
    def _protocol(self) -> ProtocolCosts:
        return next(iter(self.system.protocols.values()), ProtocolCosts())

    @cached_property
    def _counts(self) -> list[int]:
        return [level.count for level in self.system.levels]

    def time(self, step: GroupedStep, num_bytes: float) -> StepTime:
        """The faster of a ring and two trees, for ``num_bytes`` in every member."""
        return min(self.ways(step, num_bytes), key=lambda one: one.seconds)

    def ways(self, step: GroupedStep, num_bytes: float) -> list[StepTime]:
        """A ring, and two trees where the step can run on them; loads grow with the bytes, latencies do not."""
        times = [self.ring(step, num_bytes)]
        if step.kind in TREES:
            times.append(self.trees(step, num_bytes))
        return times

    def ring(self, step: GroupedStep, num_bytes: float, *, every_link: bool = False) -> StepTime:
        """A ring, or for reduce and broadcast a chain.

        With ``every_link`` it is cut into as many rings as a unit has links, each leaving by another one.
        """
        members = self._members(step)
        hops = (members - 1) * (2 if step.kind == "allreduce" else 1)
        return self._time(step, num_bytes, float(traffic(step.kind, members)), hops, every_link)

    def trees(self, step: GroupedStep, num_bytes: float) -> StepTime:
        """Two complementary trees, each for half of the data."""
        up_and_down = 2 if step.kind == "allreduce" else 1
        members = self._members(step)
        time = self._time(
            step, num_bytes, float(up_and_down if members > 1 else 0), up_and_down * ceil(log2(members))
        )
        counts = self._counts
        several = [prod(counts[max(level + 1, step.first) : step.end]) > 1 for level in range(len(counts))]
        return time.with_factors(np.where(several, TREES_PER_UNIT, 1.0))

    def _members(self, step: GroupedStep) -> int:
        return prod(self._counts[step.first : step.end])

    def _time(
        self, step: GroupedStep, num_bytes: float, inputs_moved: float, hops: int, every_link: bool = False
    ) -> StepTime:
        moved = inputs_moved * num_bytes
        loads = [self._on_level(step, level, moved, every_link) for level in range(len(self._counts))]
        return StepTime(
            np.array([*loads, *self._on_devices(step, num_bytes)]),
            hops * (self._hop_latency(step) + self._protocol.message_seconds),
        )

    def work(self, kind: str, members: int) -> Work:
        """What all members of a group copy and add together, as a plan on a ring or a chain does it."""
        n = members
        match kind:
            case "allreduce":
                return Work(n, n - 1)
            case "allgather":
                return Work(n * n, 0)
            case "broadcast":
                return Work(n, 0)
        return Work(1, n - 1)

    def _on_devices(self, step: GroupedStep, num_bytes: float) -> list[float]:
        """How long a device or a host adds, copies, and does both in turn."""
        compute, members = self.system.compute, self._members(step)
        work = self.work(step.kind, members) if members > 1 else Work(0, 0)
        num_groups = prod(self._groups_over(step, level) for level in range(len(self._counts)))
        in_use = min(self.system.host_depth, step.end) if step.masters else self.system.host_depth
        per_host = num_groups / prod(self._counts[:in_use])
        both = work.copied + work.added
        # In a ring all do the same; in a chain whoever does anything does it to a whole input.
        chain = step.kind in ("reduce", "broadcast")
        return [
            num_bytes
            * max((min(amount, 1.0) if chain else amount / members) / of_device, amount * per_host / of_host)
            for amount, of_device, of_host in (
                (work.added, compute.add_bandwidth, compute.host_add_bandwidth),
                (work.copied, compute.copy_bandwidth, compute.host_copy_bandwidth),
                (both, compute.core_bandwidth, compute.host_core_bandwidth),
            )
        ]

    def _on_level(self, step: GroupedStep, level: int, moved: float, every_link: bool) -> float:
        """How long the links of a unit of ``level`` are busy; units that no group leaves carry nothing."""
        if level < step.first or not moved:
            return 0.0
        below = range(level + 1, len(self._counts))
        groups = prod(self._groups_over(step, one) for one in below)
        ways = self._groups_over(step, level + 1) if level + 1 < len(self._counts) else 1
        link, fabric = self.system.levels[level].link, self.system.levels[level].fabric
        if link is None:
            bandwidth, num = self._mesh_bandwidth(level), 1
        else:
            bandwidth, num = (
                min(link.bandwidth_in, link.bandwidth_out),
                link.num if every_link else min(link.num, ways),
            )
        passing = moved * groups / self._protocol.efficiency
        through_fabric = passing * self._counts[level] / fabric.bandwidth
        return max(passing / (bandwidth * num), through_fabric)

    def _groups_over(self, step: GroupedStep, level: int) -> int:
        """How many groups differ in their digit of a level."""
        if step.first <= level < step.end or (step.masters and level >= step.end):
            return 1
        return self._counts[level]

    def _mesh_bandwidth(self, level: int) -> float:
        """What the slowest unit of a mesh can send over all of its direct links together."""
        edges, count = self.system.levels[level].fabric.edges, self._counts[level]
        each = [
            sum(edge.bandwidth for edge in edges if unit in (edge.first, edge.second))
            for unit in range(count)
        ]
        return min(each) if count > 1 else inf

    def _hop_latency(self, step: GroupedStep) -> float:
        """Up from a device to the outermost level that the group spans, and down again."""
        total = 0.0
        for level in self.system.levels[step.first :]:
            if level.link is not None:
                total += 2 * level.link.latency
            else:
                total += max((edge.latency for edge in level.fabric.edges), default=0.0)
        return total


class RingClock(StepClock):
    """Times steps that are carried out by rings and chains only."""

    def ways(self, step: GroupedStep, num_bytes: float) -> list[StepTime]:
        """The ring."""
        return [self.ring(step, num_bytes)]
