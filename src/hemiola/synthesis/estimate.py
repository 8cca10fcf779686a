"""estimate_programs: the best programs of a reduction by closed forms, on what one group has of the machine.

Two ways to count choose the candidates: the cheapest where steps wait for each other, and the cheapest for each resource alone,
because a pipeline is as slow as its busiest resource. They are ordered by their pipelined time, and those that do not hold
for the factors of the machine are left out. These times are estimates: they rank, and a replay of the compiled program says how long it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from hemiola.cost.estimates.shared_system import shared_system
from hemiola.cost.request import CollectiveRequest
from hemiola.synthesis.chunk_ownership import holds_for
from hemiola.synthesis.costs import EdgeCosts, edge_costs, levels_above_one
from hemiola.synthesis.program import ReductionProgram
from hemiola.synthesis.search import Path, cheapest
from hemiola.synthesis.table import Table, table_of
from hemiola.topology.system import System

POOL = 4
"""Candidates for each program that is asked for, under each way to count."""
TIE_BREAK = 1e-3
"""Of the whole cost, beside that of one resource: keeps paths apart that load it equally."""
WORK = ("adding", "copying", "cores that add and copy in turn")
"""What a step needs beside the links of levels."""


@dataclass(frozen=True, slots=True)
class EstimatedProgram:
    """A program and its estimated times."""

    program: ReductionProgram
    seconds: float
    """Pipelined: the steps overlap."""
    step_seconds: tuple[float, ...]
    """Of each step alone."""
    busiest: str
    """The resource that the pipeline waits for: a level of the machine, or one of ``WORK``."""
    busy_seconds: float
    latency_seconds: float

    @property
    def blocking_seconds(self) -> float:
        """Where every step waits for the one before."""
        return sum(self.step_seconds)


def estimate_programs(request: CollectiveRequest, num_bytes: float, top: int) -> list[EstimatedProgram]:
    """The ``top`` best programs of a request of ``num_bytes``, the fastest first."""
    return estimates_on(shared_system(request.system, request.table), request, num_bytes, top)


def estimates_on(
    share: System, request: CollectiveRequest, num_bytes: float, top: int
) -> list[EstimatedProgram]:
    """The same on what one group has of the machine."""
    levels = levels_above_one(share)
    factors = tuple(share.levels[level].count for level in levels)
    table = table_of(len(levels), request.kind)
    costs = edge_costs(table, share, num_bytes)
    pool, paths, found = POOL * top, set[Path](), list[EstimatedProgram]()
    while len(found) < top:
        known, paths = len(paths), _cheapest_paths(table, costs, pool)
        if len(paths) == known:  # there are no more
            break
        ranked = [_estimated(table.program(path), path, costs, share) for path in sorted(paths)]
        ranked.sort(key=lambda one: (one.seconds, one.blocking_seconds, len(one.program)))
        holding = (one for one in ranked if holds_for(one.program, factors, request.kind))
        found, pool = list(islice(holding, top)), 2 * pool
    return found


def _cheapest_paths(table: Table, costs: EdgeCosts, pool: int) -> set[Path]:
    """The ``pool`` cheapest under each way to count."""
    seconds = costs.seconds
    counted = [seconds, *(load + TIE_BREAK * seconds for load in costs.loads.T if load.any())]
    return {found.path for each in counted for found in cheapest(table, np.asarray(each), pool)}


def _estimated(program: ReductionProgram, path: Path, costs: EdgeCosts, share: System) -> EstimatedProgram:
    busy = costs.loads[list(path)].sum(axis=0)
    names = [*(f"the level of {level.name}s" for level in share.levels), *WORK]
    return EstimatedProgram(
        program,
        costs.pipelined(path),
        tuple(costs.seconds[list(path)].tolist()),
        names[int(busy.argmax())],
        float(busy.max()),
        float(costs.latencies[list(path)].sum()),
    )
