"""LevelCapacities: the units of each level that hold ranks of a collective, with what can pass in and out of them."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hemiola.errors import TopologyError
from hemiola.topology.system import Edge, Link, Path, System

Amounts = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LevelCapacities:
    """Arrays indexed by unit, in level order."""

    depth: int
    paths: tuple[Path, ...]
    unit_of_rank: Numbers
    parents: Numbers
    """Numbers of units one level outside; 0 for all at the outermost level."""
    capacity_in: Amounts
    """Bytes per second over all links into a unit."""
    capacity_out: Amounts
    inside_latency: Amounts
    """The least seconds from a rank of the unit to where the unit's own link begins."""
    away_latency: Amounts
    """The least seconds from there to a rank outside; infinite where no rank is outside."""

    @property
    def crossing_latency(self) -> Amounts:
        """The least seconds from a rank of a unit to one outside."""
        return self.inside_latency + self.away_latency


@dataclass(frozen=True)
class Distances:
    """The least latencies between ranks; each level's mesh is searched when it is first crossed."""

    system: System
    devices: Sequence[Path]
    """Of the ranks."""

    @cached_property
    def _digits(self) -> Numbers:
        return np.array(self.devices, np.int64).reshape(len(self.devices), -1)

    @cached_property
    def _rising(self) -> Amounts:
        """Row d, rank r: seconds from r over the links of its units up to those of depth d + 1; 0 in a mesh."""
        devices = self.devices
        table = np.zeros((len(self.system.levels) + 1, len(devices)))
        for depth in range(len(self.system.levels), 0, -1):
            table[depth - 1] = table[depth]
            if self.system.levels[depth - 1].fabric.kind != "mesh":
                alike = _are_alike(self.system, depth)
                paths = [path[:depth] for path in (devices[:1] if alike else devices)]
                table[depth - 1] += _of_links(self.system, paths, _latency)
        return table

    def between(self, sources: Numbers, destinations: Numbers) -> Amounts:
        """Seconds of pairs of ranks; 0 from a rank to itself."""
        start, end = self._digits[sources], self._digits[destinations]
        same = (start == end).all(axis=1)
        meeting = np.where(same, len(self.system.levels), (start != end).argmax(axis=1))
        seconds = self._rising[meeting, sources] + self._rising[meeting, destinations]
        meshes = np.array([*(level.fabric.kind == "mesh" for level in self.system.levels), False])
        for pair in np.flatnonzero(meshes[meeting]):
            depth = int(meeting[pair])
            around = tuple(start[pair, :depth].tolist())
            direct = self._across(around, int(start[pair, depth]))[int(end[pair, depth])]
            seconds[pair] += min(direct, self._detour(around))
        return np.where(same, 0.0, seconds)

    def _detour(self, around: Path) -> float:
        """The least seconds out of a unit and, from a rank elsewhere, back into it."""
        if (self._digits[:, : len(around)] == around).all():
            return math.inf
        link = (
            None if self.system.levels[len(around) - 1].fabric.kind == "mesh" else self.system.link_of(around)
        )
        return 2 * link.latency if link is not None else 0.0

    def _across(self, around: Path, start: int) -> Sequence[float]:
        """Seconds from one unit of a mesh to all others."""
        key = (*around, start)
        if key not in self._crossed:
            level = self.system.levels[len(around)]
            self._crossed[key] = shortest(edges_there(self.system, around), level.count, start)
        return self._crossed[key]

    @cached_property
    def _crossed(self) -> dict[Path, Sequence[float]]:
        return {}

    def diameter(self) -> tuple[float, int, int]:
        """Two ranks far apart, and their distance: the farthest from the farthest from rank 0, on a tree the farthest."""
        ranks = np.arange(len(self.devices))
        first = int(self.between(np.zeros_like(ranks), ranks).argmax())
        seconds = self.between(np.full_like(ranks, first), ranks)
        return float(seconds.max()), first, int(seconds.argmax())


def level_capacities(system: System, devices: Sequence[Path]) -> list[LevelCapacities]:
    """Of every level, outermost first; ``devices`` are those of the ranks, in the order of the system."""
    shapes = [_shape(devices, depth) for depth in range(1, len(system.levels) + 1)]
    inside = _inside_latencies(system, shapes)
    found: list[LevelCapacities] = []
    for depth, (paths, of_rank, parents) in enumerate(shapes, 1):
        outside = found[-1] if found else None
        into, out = _capacities(system, paths, parents, outside)
        away = _away_latencies(system, paths, parents, inside[depth - 1], outside)
        found.append(LevelCapacities(depth, paths, of_rank, parents, into, out, inside[depth - 1], away))
    return found


Shape = tuple[tuple[Path, ...], Numbers, Numbers]
"""Paths of units, the unit of every rank, the parent of every unit."""


def _shape(devices: Sequence[Path], depth: int) -> Shape:
    digits = np.array(devices, np.int64).reshape(len(devices), -1)
    paths, of_rank = _numbered(digits[:, :depth])
    _, parents = _numbered(paths[:, :-1])
    return tuple(map(tuple, paths.tolist())), of_rank, parents


def _numbered(digits: Numbers) -> tuple[Numbers, Numbers]:
    """The different rows in the order in which they come, which is that of devices, and the number of each row."""
    new = np.append(True, (digits[1:] != digits[:-1]).any(axis=1))
    return digits[new], np.cumsum(new) - 1


def _inside_latencies(system: System, shapes: Sequence[Shape]) -> list[Amounts]:
    """Of every level: the least seconds from a device up to the unit's own link."""
    inside = [np.zeros(len(shapes[-1][0]))]
    for depth in range(len(shapes) - 1, 0, -1):
        paths, _, parents = shapes[depth]
        least = np.full(len(shapes[depth - 1][0]), np.inf)
        np.minimum.at(least, parents, inside[0] + _link_latencies(system, paths))
        inside.insert(0, least)
    return inside


def _link_latencies(system: System, paths: Sequence[Path]) -> Amounts:
    if system.levels[len(paths[0]) - 1].fabric.kind == "mesh":
        return np.zeros(len(paths))  # who leaves a unit whose inside is a mesh does not cross the mesh
    return _of_links(system, paths, _latency)


def _latency(link: Link) -> float:
    return link.latency


def _of_links(system: System, paths: Sequence[Path], what: Callable[[Link], float]) -> Amounts:
    """A number of every unit's links; units of a level are mostly alike."""
    if _are_alike(system, len(paths[0])):
        return np.full(len(paths), what(system.link_of(paths[0])))
    return np.array([what(system.link_of(path)) for path in paths])


def _are_alike(system: System, depth: int) -> bool:
    return not any(len(path) == depth for path in system.exceptions)


def _capacities(
    system: System, paths: Sequence[Path], parents: Numbers, outside: LevelCapacities | None
) -> tuple[Amounts, Amounts]:
    if system.levels[len(paths[0]) - 1].fabric.kind != "mesh":
        return (
            _of_links(system, paths, lambda link: link.num * link.bandwidth_in),
            _of_links(system, paths, lambda link: link.num * link.bandwidth_out),
        )
    # A unit of a mesh has its edges, and beside them all that leads out of the mesh.
    edges = np.array(
        [sum(edge.bandwidth for edge in edges_there(system, path[:-1], path[-1])) for path in paths]
    )
    if outside is None or len(outside.paths) == 1:
        return edges, edges
    return edges + outside.capacity_in[parents], edges + outside.capacity_out[parents]


def _away_latencies(
    system: System, paths: Sequence[Path], parents: Numbers, inside: Amounts, outside: LevelCapacities | None
) -> Amounts:
    further = np.full(len(paths), np.inf) if outside is None else outside.away_latency[parents]
    links = _link_latencies(system, paths)
    if system.levels[len(paths[0]) - 1].fabric.kind != "mesh":
        return links + np.minimum(_least_of_others(inside + links, parents), further)
    nearest = [
        min((edge.latency for edge in edges_there(system, path[:-1], path[-1])), default=math.inf)
        for path in paths
    ]
    return np.minimum(nearest, further)


def _least_of_others(values: Amounts, groups: Numbers) -> Amounts:
    """For every item the least value among the others of its group; infinite where it is alone."""
    order = np.lexsort((values, groups))
    grouped = groups[order]
    first = np.flatnonzero(np.append(True, grouped[1:] != grouped[:-1]))
    sizes = np.diff(np.append(first, len(order)))
    least = np.repeat(values[order[first]], sizes)
    second = np.where(sizes > 1, values[order[np.minimum(first + 1, len(order) - 1)]], np.inf)
    least[first] = second
    found = np.empty(len(values))
    found[order] = least
    return found


def edges_there(system: System, around: Path, end: int | None = None) -> Iterator[Edge]:
    """The edges of a mesh whose two units are there; with ``end``, those at that unit."""
    for edge in system.levels[len(around)].fabric.edges:
        here = end is None or end in (edge.first, edge.second)
        if here and {(*around, edge.first), (*around, edge.second)}.isdisjoint(system.missing):
            yield edge


def shortest(edges: Iterable[Edge], count: int, start: int) -> Sequence[float]:
    """Seconds from a unit of a mesh to every other; raises nothing, what cannot be reached is infinitely far."""
    neighbours: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    for edge in edges:
        neighbours[edge.first].append((edge.second, edge.latency))
        neighbours[edge.second].append((edge.first, edge.latency))
    seconds = [math.inf] * count
    waiting = [(0.0, start)]
    while waiting:
        time, unit = heapq.heappop(waiting)
        if time < seconds[unit]:
            seconds[unit] = time
            for other, latency in neighbours[unit]:
                heapq.heappush(waiting, (time + latency, other))
    return seconds


def check_connected(system: System, levels: Sequence[LevelCapacities]) -> None:
    """Raise where a unit that must talk to others has no way to."""
    for units in levels:
        alone = np.flatnonzero(units.capacity_in == 0)
        if len(units.paths) > 1 and len(alone):
            raise TopologyError(
                f"nothing joins {system.describe(units.paths[int(alone[0])])} of system {system.name!r} to the others; add an edge"
            )
