"""replay: a job's traffic under any permutation, with plans of the library replayed by the simulator, all groups at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.ir.plan import Plan
from hemiola.placement.axes import Axes, find_axis
from hemiola.placement.groups import groups_of_grid
from hemiola.placement.matrix import Numbers
from hemiola.placement.permutation import PermutationCosts
from hemiola.placement.score import exposed
from hemiola.placement.traffic import Request, Traffic
from hemiola.simulator.replay import simulate_together
from hemiola.simulator.tiling import Tiling
from hemiola.simulator.timeline import Load

MOST_REPLAYED = 64
"""Devices; on more, plans take longer to make than a search should."""
NUM_TILES = 8
"""Of every plan: enough for levels to overlap, few enough to be quick for any size."""


@dataclass(frozen=True)
class Replay:
    """Times permutations of a system by replay."""

    costs: PermutationCosts

    def seconds(self, grid: Numbers, axes: Axes, traffic: Traffic) -> float:
        """The exposed time of a step."""
        each = [self._request_seconds(request, grid, axes) * request.per_step for request in traffic.requests]
        return float(exposed(np.array(each).reshape(-1, 1), traffic).sum())

    def _request_seconds(self, request: Request, grid: Numbers, axes: Axes) -> float:
        groups = groups_of_grid(grid, [find_axis(axes, name, "traffic") for name in request.over])
        if groups.shape[1] == 1:
            return 0.0
        if request.collective != "alltonext":
            groups = np.sort(groups, axis=1)
        factors = next(self.costs.regular_factors(groups), None)
        return min(
            self._plan_seconds(plan, request, groups)
            for plan in _plans(request.collective, groups.shape[1], tuple(factors or ()))
        )

    def _plan_seconds(self, plan: Plan, request: Request, groups: Numbers) -> float:
        loads = [Load(plan, request.num_bytes, group) for group in groups.tolist()]
        return simulate_together(loads, self.costs.system, tiling=Tiling(num_tiles=NUM_TILES)).seconds


@cache
def _plan(name: str, size: int, levels: str) -> Plan:
    options = {"levels": levels} if levels else {}
    return compile_program(build(name, {"ranks": str(size), **options})).plan


def _plans(collective: str, size: int, factors: Sequence[int]) -> Iterator[Plan]:
    """A few algorithms that suit groups of any devices, and those by level where groups have levels."""
    names = {
        "alltoall": ("alltoall_allpairs",),
        "alltonext": ("alltonext_direct",),
        "broadcast": ("broadcast_chain", "broadcast_tree"),
    }.get(collective, (f"{collective}_ring", f"{collective}_allpairs"))
    for name in names:
        yield _plan(name, size, "")
    levels = [str(factor) for factor in factors if factor > 1]
    if len(levels) > 1 and collective in ("allreduce", "allgather", "reducescatter"):
        yield _plan(f"{collective}_hierarchical", size, ",".join(levels))
