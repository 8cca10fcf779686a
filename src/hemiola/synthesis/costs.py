"""costs: what the steps of a table take on a system, one after another or in a pipeline.

Steps that wait for each other cost the sum of their times, so that the cheapest program is a shortest path. Cut into C
pieces that follow each other through the steps, a program takes

    latencies + sum over steps of (busiest resource) / C + (C - 1) / C · max over resources of (sum over steps)

The first term of the data is one piece going through all steps alone; then a piece comes out whenever the busiest
resource has finished one: the maximum over the levels instead of the sum. One piece gives the blocking time again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from hemiola.cost.estimates.grouped_steps import GroupedStep, StepClock, StepTime
from hemiola.synthesis.groups import Grouping, groupings
from hemiola.synthesis.program import STEPS
from hemiola.synthesis.table import Table
from hemiola.topology.system import System

PIECES = 32
"""Pieces of a pipeline."""


@dataclass(frozen=True, slots=True)
class EdgeCosts:
    """Times of all edges of a table, on one system for one size."""

    loads: npt.NDArray[np.float64]
    """Per edge and resource."""
    latencies: npt.NDArray[np.float64]

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """Of each step alone."""
        return np.asarray(self.loads.max(axis=1) + self.latencies)

    def blocking(self, path: Sequence[int]) -> float:
        """Steps that wait for each other."""
        chosen = list(path)
        return float((self.loads[chosen].max(axis=1) + self.latencies[chosen]).sum())

    def pipelined(self, path: Sequence[int], pieces: int = PIECES) -> float:
        """Pieces that follow each other through the steps."""
        loads = self.loads[list(path)]
        flowing = loads.max(axis=1).sum() / pieces + loads.sum(axis=0).max() * (pieces - 1) / pieces
        return float(flowing + self.latencies[list(path)].sum())


def levels_above_one(system: System) -> list[int]:
    """The levels that are factors of a hierarchy."""
    return [number for number, level in enumerate(system.levels) if level.count > 1]


def edge_costs(
    table: Table, system: System, num_bytes: float, clock_of: Callable[[System], StepClock] = StepClock
) -> EdgeCosts:
    """The time of every step of a table, for a collective of ``num_bytes``.

    ``system`` is what one group has of the machine (`shared_system`), and ``clock_of`` how a backend carries steps out. A step
    costs the same wherever it stands in the graph, but for the part of the data that its groups hold; groups that hold less
    than others count as if they held as much.
    """
    levels, clock = levels_above_one(system), clock_of(system)
    assert len(levels) == table.depth
    factors = [system.levels[level].count for level in levels]
    distinct, inverse = table.kinds
    ways = groupings(table.depth)
    per_byte: dict[tuple[int, int], list[tuple[float, StepTime]]] = {}
    loads, latencies = [], []
    for grouping, collective, scatterings in distinct.tolist():
        held = num_bytes * max(_part(scattering, factors) for scattering in _bits(scatterings))
        known = per_byte.get((grouping, collective))
        if known is None:
            step = _grouped(ways[grouping], STEPS[collective].value, levels)
            known = [(float(time.loads.max()), time) for time in clock.ways(step, 1.0)]
            per_byte[grouping, collective] = known
        _, time = min(known, key=lambda way: way[0] * held + way[1].latency)
        loads.append(time.loads * held)
        latencies.append(time.latency)
    return EdgeCosts(np.stack(loads)[inverse], np.array(latencies)[inverse])


def _grouped(grouping: Grouping, kind: str, levels: Sequence[int]) -> GroupedStep:
    return GroupedStep(kind, levels[grouping.first], levels[grouping.end - 1] + 1, grouping.master)


def _part(scattering: int, factors: Sequence[int]) -> float:
    return 1 / prod(factors[factor] for factor in _bits(scattering))


def _bits(number: int) -> list[int]:
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]
