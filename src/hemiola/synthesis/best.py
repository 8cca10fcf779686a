"""best: the best program for each of many reductions at once, as comparing placements needs it.

Reductions over equally many factors share a walk over their table, and equal questions are asked once. For each
reduction the walk finds the cheapest blocking program and the cheapest for each resource alone; the best of them
in a pipeline is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hemiola.synthesis.costs import EdgeCosts, edge_costs, levels_above_one
from hemiola.synthesis.program import ReductionProgram
from hemiola.synthesis.search import cheapest_of_each
from hemiola.synthesis.state import Request
from hemiola.synthesis.table import table_of
from hemiola.topology.system import System

A_LITTLE = 1e-3
"""Of the whole cost, beside that of one resource: keeps programs apart that load it equally."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best program of a reduction by closed form; an empty one where a group is a single device."""

    program: ReductionProgram
    seconds: float
    """Pipelined."""
    blocking_seconds: float


def best_programs(
    shares: Sequence[System], num_bytes: Sequence[float], request: Request = Request.ALLREDUCE
) -> list[Best]:
    """The best program for each of several systems, each what one group has of a machine, and sizes."""
    keys = [(share.levels, size) for share, size in zip(shares, num_bytes, strict=True)]
    asked = {key: (share, key[1]) for key, share in zip(keys, shares, strict=True)}
    by_depth: dict[int, list[tuple[object, System, float]]] = {}
    for key, (share, size) in asked.items():
        by_depth.setdefault(len(levels_above_one(share)), []).append((key, share, size))
    found: dict[object, Best] = {}
    for depth, questions in by_depth.items():
        if depth == 0:
            found |= {key: Best(ReductionProgram(0, ()), 0.0, 0.0) for key, _, _ in questions}
        else:
            found |= _of_one_depth(depth, questions, request)
    return [found[key] for key in keys]


def _of_one_depth(
    depth: int, questions: Sequence[tuple[object, System, float]], request: Request
) -> dict[object, Best]:
    table = table_of(depth, request)
    all_costs = [edge_costs(table, share, size) for _, share, size in questions]
    columns = [_columns(costs) for costs in all_costs]
    programs = cheapest_of_each(table, np.concatenate(columns, axis=1))
    found, at = {}, 0
    for (key, _, _), costs, own in zip(questions, all_costs, columns, strict=True):
        paths = {one.path: one.program for one in programs[at : at + own.shape[1]]}
        at += own.shape[1]
        path = min(paths, key=lambda one: (costs.pipelined(one), costs.blocking(one), len(one), one))
        found[key] = Best(paths[path], costs.pipelined(path), costs.blocking(path))
    return found


def _columns(costs: EdgeCosts) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The ways to count: blocking, and each resource that is used at all."""
    seconds = costs.seconds
    used = costs.loads[:, costs.loads.any(axis=0)]
    return np.column_stack([seconds, used + (costs.latencies + A_LITTLE * seconds)[:, None]])
