"""search: programs of a table: all up to a length, how many there are, and the cheapest of any length.

Steps only ever add information, so the states form a graph without cycles, numbered in its order. With costs that add up,
the cheapest program is a shortest path and the k cheapest are the k shortest: one walk over the edges from the goals back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.collectives import CollectiveKind
from hemiola.synthesis.program import STEPS, ReductionProgram
from hemiola.synthesis.table import Table

Path = tuple[int, ...]
"""Edges of a table, from its start to a goal."""


@dataclass(frozen=True, slots=True)
class CheapestProgram:
    """A program and the sum of its steps' costs."""

    program: ReductionProgram
    path: Path
    cost: float


def paths_up_to(table: Table, length: int) -> Iterator[Path]:
    """Every program of at most so many steps, shorter ones first."""
    first, targets = table.first_edges(), table.edges["target"]
    distance = steps_to_goal(table)
    layer: list[tuple[int, Path]] = [(0, ())]
    for done in range(length):
        after: list[tuple[int, Path]] = []
        for state, path in layer:
            for edge in range(int(first[state]), int(first[state + 1])):
                target = int(targets[edge])
                if target >= table.first_goal:
                    yield (*path, edge)
                elif distance[target] <= length - done - 1:
                    after.append((target, (*path, edge)))
        layer = after


def programs_up_to(table: Table, length: int) -> Iterator[ReductionProgram]:
    """Every program of at most so many steps, shorter ones first."""
    return (table.program(path) for path in paths_up_to(table, length))


def steps_to_goal(table: Table) -> npt.NDArray[np.int64]:
    """The least number of steps that lead from every state to a goal."""
    distance = np.where(np.arange(table.num_states) >= table.first_goal, 0, np.iinfo(np.int32).max)
    for row in table.edges[::-1]:
        source, target = int(row["source"]), int(row["target"])
        distance[source] = min(distance[source], distance[target] + 1)
    return distance


def count_programs(table: Table, only: Collection[CollectiveKind] = STEPS) -> list[int]:
    """How many programs have 1, 2, … steps, up to the longest; ``only`` these collectives."""
    allowed = np.isin(table.edges["collective"], [STEPS.index(step) for step in only])
    sources, targets = table.edges["source"][allowed], table.edges["target"][allowed]
    counts: list[int] = []
    at = np.zeros(table.num_states, np.int64)
    at[0] = 1
    while at.any():
        after = np.zeros_like(at)
        np.add.at(after, targets, at[sources])
        counts.append(int(after[table.first_goal :].sum()))
        after[table.first_goal :] = 0
        at = after
    while counts and not counts[-1]:
        counts.pop()
    return counts


def cheapest(table: Table, costs: npt.NDArray[np.float64], k: int = 1) -> list[CheapestProgram]:
    """The ``k`` programs of any length whose steps cost least in all; ``costs`` is for every edge.

    From the last state to the first, every state keeps its k cheapest ways to a goal, each as (cost, edge, which of the
    target's ways). Ties go to the lower edge, so that the same question has the same answer.
    """
    first, targets, each = table.first_edges().tolist(), table.edges["target"].tolist(), costs.tolist()
    ways: list[list[tuple[float, int, int]]] = [[] for _ in range(table.num_states)]
    for goal in range(table.first_goal, table.num_states):
        ways[goal] = [(0.0, -1, 0)]
    for state in range(table.first_goal - 1, -1, -1):
        edges = range(first[state], first[state + 1])
        if k == 1:
            ways[state] = [min((each[edge] + ways[targets[edge]][0][0], edge, 0) for edge in edges)]
        else:
            found = [
                (each[edge] + way[0], edge, number)
                for edge in edges
                for number, way in enumerate(ways[targets[edge]])
            ]
            found.sort()  # these lists are short
            ways[state] = found[:k]
    return [_follow(table, ways, number) for number in range(len(ways[0]))]


def cheapest_of_each(table: Table, costs: npt.NDArray[np.float64]) -> list[CheapestProgram]:
    """The cheapest program for every column of ``costs``, a row for each edge: many questions in one walk."""
    first, targets = table.first_edges().tolist(), table.edges["target"]
    columns = np.arange(costs.shape[1])
    least = np.zeros((table.num_states, len(columns)))
    choice = np.zeros((table.first_goal, len(columns)), np.int32)
    for state in range(table.first_goal - 1, -1, -1):
        start, end = first[state], first[state + 1]
        ways = costs[start:end] + least[targets[start:end]]
        best = ways.argmin(axis=0)
        least[state] = ways[best, columns]
        choice[state] = best + start
    return [_chosen(table, choice[:, column], float(least[0, column])) for column in columns.tolist()]


def _chosen(table: Table, choice: npt.NDArray[np.int32], cost: float) -> CheapestProgram:
    state, path = 0, []
    while state < table.first_goal:
        path.append(int(choice[state]))
        state = int(table.edges["target"][path[-1]])
    return CheapestProgram(table.program(tuple(path)), tuple(path), cost)


def _follow(table: Table, ways: list[list[tuple[float, int, int]]], number: int) -> CheapestProgram:
    cost, edge, number = ways[0][number]
    path: list[int] = []
    while edge >= 0:
        path.append(edge)
        _, edge, number = ways[int(table.edges["target"][edge])][number]
    return CheapestProgram(table.program(tuple(path)), tuple(path), cost)
