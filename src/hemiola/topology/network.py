"""Network: the directed links and shared resources of a system, and the route of a transfer over them.

Every link of a unit is two directed links, out of the unit and into it, and so is an edge of a mesh. The route of a
transfer leads from its source device up to the innermost fabric that both devices are below, and down again. A route
leaves a unit with several links through the link that ``System.link_number`` gives for the source, and enters one
through that of the destination; where the common fabric is rails, both sides use the rail of the destination. All links
of a device count as one, because a device spreads its traffic over them. A fabric with a bandwidth of its own is one
more resource on every route through it. A route through a mesh has the fewest hops; among those it is the widest, and
then the one with the lowest numbers. A route that leaves a unit whose inside is a mesh does not use the edges of that
mesh.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hemiola.errors import TopologyError
from hemiola.topology.system import Edge, Path, ProtocolCosts, System

Numbers = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

ABSENT = -1


@dataclass(frozen=True)
class _Level:
    """The links of the units of one level; those of a unit are numbered from its ``first_link`` on: out, in, out, in."""

    ordinal: Numbers
    """The number of the unit for every path, indexed by the path as a mixed-radix number; ABSENT where it is missing."""
    first_link: Numbers
    """The first link of every unit; empty in a mesh."""
    num_links: Numbers
    behind: Numbers
    """The number of the link that a device uses, indexed by unit and device; empty where its path gives the number."""
    first_fabric: int
    """The resource of the first fabric of this level, of which every unit of the level outside has one; ABSENT where fabrics
    have no bandwidth of their own."""
    first_edge: int
    """The first directed edge of the first mesh of this level; ABSENT without a mesh."""


@dataclass(frozen=True)
class Network:
    """The directed links of a system and the routes between its ranks; made by ``network_of``."""

    system: System
    capacities: Amounts
    """Bytes per second of every directed link or shared resource."""
    latencies: Amounts
    """Seconds of every directed link; 0 for shared resources."""
    levels: tuple[_Level, ...]

    @property
    def num_links(self) -> int:
        """The number of directed links and shared resources."""
        return len(self.capacities)

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """The links from one rank to another, in order; none from a rank to itself."""
        first, links = self.routes(np.array([src]), np.array([dst]))
        return tuple(links[first[0] : first[1]].tolist())

    def routes(self, src: npt.ArrayLike, dst: npt.ArrayLike) -> tuple[Numbers, Numbers]:
        """Many routes at once: route k is ``links[first[k] : first[k + 1]]``."""
        sources, targets = np.asarray(src, np.int64), np.asarray(dst, np.int64)
        for rank in (sources, targets):
            if rank.size and not (rank.min() >= 0 and rank.max() < self.system.num_ranks):
                raise TopologyError(
                    f"system {self.system.name!r} has ranks 0 to {self.system.num_ranks - 1},"
                    f" but a route of rank {int(rank.max() if rank.min() >= 0 else rank.min())} was asked for"
                )
        columns = list(self._columns(self._digits[sources], self._digits[targets]))
        table = np.stack(columns, axis=1) if columns else np.empty((len(sources), 0), np.int64)
        taken = table != ABSENT
        first = np.zeros(len(sources) + 1, np.int64)
        np.cumsum(taken.sum(axis=1), out=first[1:])
        return first, table[taken]

    def name(self, link: int) -> str:
        """The name of a link for people: "NIC 0 of host 3, out", "uplink of rack 1", "link of rank 2 of host 0, in"."""
        for depth, level in enumerate(self.levels, 1):
            if (found := self._name_in(depth, level, link)) is not None:
                return found
        raise TopologyError(
            f"system {self.system.name!r} has links 0 to {self.num_links - 1}, but not {link}"
        )

    @cached_property
    def _digits(self) -> Numbers:
        return np.array(self.system.devices, np.int64).reshape(self.system.num_ranks, -1)

    def _units(self, digits: Numbers, depth: int) -> Numbers:
        """The number of the unit at a depth in which each device lies."""
        if depth == 0:
            return np.zeros(len(digits), np.int64)
        counts = [level.count for level in self.system.levels[:depth]]
        units: Numbers = self.levels[depth - 1].ordinal[
            np.ravel_multi_index(tuple(digits[:, :depth].T), counts)
        ]
        return units

    def _columns(self, src: Numbers, dst: Numbers) -> Iterator[Numbers]:
        """The hops of all routes, one array per possible hop; ABSENT where a route does not have that hop."""
        depths = len(self.levels)
        common = (src != dst).argmax(axis=1) + 1  # the depth of the fabric that both sides have in common
        common[(src == dst).all(axis=1)] = depths + 1
        for depth in range(depths, 0, -1):
            yield from self._leave(depth, src, dst, common)
        for depth in range(1, depths + 1):
            yield from self._enter(depth, src, dst, common)

    def _leave(self, depth: int, src: Numbers, dst: Numbers, common: Numbers) -> Iterator[Numbers]:
        level, fabric = self.levels[depth - 1], self.system.levels[depth - 1].fabric
        passes, meets = common <= depth, common == depth
        if fabric.kind == "mesh":
            if level.first_fabric != ABSENT:
                yield np.where(meets, level.first_fabric + self._units(src, depth - 1), ABSENT)
            yield from self._cross(depth, src, dst, meets)
            return
        units = self._units(src, depth)
        devices = np.where((meets & (fabric.kind == "rails"))[:, np.newaxis], dst, src)
        yield np.where(passes, level.first_link[units] + 2 * self._numbers(depth, units, devices), ABSENT)
        if level.first_fabric != ABSENT:
            yield np.where(passes, level.first_fabric + self._units(src, depth - 1), ABSENT)

    def _enter(self, depth: int, src: Numbers, dst: Numbers, common: Numbers) -> Iterator[Numbers]:
        level, fabric = self.levels[depth - 1], self.system.levels[depth - 1].fabric
        if fabric.kind == "mesh":
            return
        if level.first_fabric != ABSENT:
            yield np.where(common < depth, level.first_fabric + self._units(dst, depth - 1), ABSENT)
        units = self._units(dst, depth)
        links = level.first_link[units] + 2 * self._numbers(depth, units, dst) + 1
        yield np.where(common <= depth, links, ABSENT)

    def _numbers(self, depth: int, units: Numbers, devices: Numbers) -> Numbers:
        """Which of its links a unit uses for a device; the same as ``System.link_number``, for many at once."""
        level, inside = self.levels[depth - 1], devices[:, depth:]
        if not inside.shape[1]:
            return np.zeros(len(devices), np.int64)
        if not level.behind.size:
            return inside[:, 0] % level.num_links[units]
        counts = [one.count for one in self.system.levels[depth:]]
        numbers: Numbers = level.behind[units, np.ravel_multi_index(tuple(inside.T), counts)]
        return numbers

    def _cross(self, depth: int, src: Numbers, dst: Numbers, meets: Numbers) -> Iterator[Numbers]:
        level, edges = self.levels[depth - 1], self.system.levels[depth - 1].fabric.edges
        rows = np.flatnonzero(meets)
        keys = np.concatenate([src[rows, :depth], dst[rows, depth - 1 : depth]], axis=1)
        pairs, which = np.unique(keys, axis=0, return_inverse=True)
        parents = self._units(src[rows], depth - 1)
        paths = [self._path(depth, tuple(pair[:-1]), int(pair[-1])) for pair in pairs.tolist()]
        hops = np.full((len(paths), max(map(len, paths), default=0)), ABSENT, np.int64)
        for row, path in enumerate(paths):
            hops[row, : len(path)] = path
        for hop in hops.T:
            column = np.full(len(src), ABSENT, np.int64)
            links = hop[which.reshape(-1)]
            column[rows] = np.where(
                links == ABSENT, ABSENT, level.first_edge + 2 * len(edges) * parents + links
            )
            yield column

    def _path(self, depth: int, start: Path, end: int) -> list[int]:
        """The directed edges of a mesh from a unit to another: edge e is 2e from its first unit to its second, else 2e + 1."""
        fabric = self.system.levels[depth - 1].fabric
        around, begin = start[:-1], start[-1]
        # Meshes without missing units are alike.
        key = (depth, around if self.system.missing else (), begin, end)
        if key in self._paths:
            return self._paths[key]
        found = shortest_path(
            [
                edge
                if {(*around, edge.first), (*around, edge.second)}.isdisjoint(self.system.missing)
                else None
                for edge in fabric.edges
            ],
            begin,
            end,
        )
        if found is None:
            raise TopologyError(
                f"no edges lead from {self.system.describe(start)} to"
                f" {self.system.describe((*around, end))} in system {self.system.name!r}; add one to its mesh"
            )
        self._paths[key] = found
        return found

    @cached_property
    def _paths(self) -> dict[tuple[int, Path, int, int], list[int]]:
        return {}

    def _name_in(self, depth: int, level: _Level, link: int) -> str | None:
        about = self.system.levels[depth - 1]
        num_fabrics = max(1, len(list(self.system.units(depth - 1)))) if depth > 1 else 1
        if level.first_fabric != ABSENT and 0 <= link - level.first_fabric < num_fabrics:
            inside = self._describe(depth - 1, link - level.first_fabric)
            return f"fabric of the {about.name}s" + (f" of {inside}" if inside else "")
        if about.fabric.kind == "mesh":
            parent, number = divmod(link - level.first_edge, 2 * len(about.fabric.edges))
            if not 0 <= parent < num_fabrics:
                return None
            edge = about.fabric.edges[number // 2]
            ends = (edge.second, edge.first) if number % 2 else (edge.first, edge.second)
            inside = self._describe(depth - 1, parent)
            return f"link from {about.name} {ends[0]} to {ends[1]}" + (f" of {inside}" if inside else "")
        if not (
            len(level.first_link)
            and level.first_link[0] <= link < level.first_link[-1] + 2 * level.num_links[-1]
        ):
            return None
        unit = int(np.searchsorted(level.first_link, link, side="right")) - 1
        number, way = divmod(link - int(level.first_link[unit]), 2)
        direction = ("out", "in")[way]
        if depth == self.system.host_depth:
            return f"NIC {number} of {self._describe(depth, unit)}, {direction}"
        if depth < self.system.host_depth:
            kind = ("uplink", "downlink")[way]
            several = f" {number}" if level.num_links[unit] > 1 else ""
            return f"{kind}{several} of {self._describe(depth, unit)}"
        return f"link of {self._describe(depth, unit)}, {direction}"

    def _describe(self, depth: int, unit: int) -> str:
        if depth == 0:
            return ""
        counts = [level.count for level in self.system.levels[:depth]]
        place = int(np.flatnonzero(self.levels[depth - 1].ordinal == unit)[0])
        return self.system.describe(tuple(int(digit) for digit in np.unravel_index(place, counts)))


def network_of(system: System, protocol: ProtocolCosts | None = None) -> Network:
    """The network of a system, with capacities multiplied by the efficiency of a protocol.

    A network is kept beside its system, since searches ask for it thousands of times and paths through meshes take long.
    """
    efficiency = protocol.efficiency if protocol is not None else 1.0
    kept: dict[float, Network] = vars(system).setdefault("_networks", {})
    if efficiency not in kept:
        kept[efficiency] = _make_network(system, efficiency)
    return kept[efficiency]


def _make_network(system: System, efficiency: float) -> Network:
    capacities: list[Amounts] = []
    latencies: list[Amounts] = []
    levels: list[_Level] = []
    num_links, num_parents = 0, 1

    def add(capacity: Amounts, latency: Amounts) -> int:
        nonlocal num_links
        first, num_links = num_links, num_links + len(capacity)
        capacities.append(capacity * efficiency)
        latencies.append(latency)
        return first

    for depth, level in enumerate(system.levels, 1):
        ordinal = _ordinals(system, depth)
        first_link = num_each = np.empty(0, np.int64)
        first_edge = first_fabric = ABSENT
        if level.fabric.kind == "mesh":
            ends = np.array([[edge.bandwidth, edge.latency] for edge in level.fabric.edges])
            both = np.tile(np.repeat(ends, 2, axis=0), (num_parents, 1))
            first_edge = add(both[:, 0], both[:, 1])
        else:
            num_each, capacity, latency = _links(system, depth, ordinal)
            first_link = add(capacity, latency) + 2 * (np.cumsum(num_each) - num_each)
        if math.isfinite(level.fabric.bandwidth):
            first_fabric = add(np.full(num_parents, level.fabric.bandwidth), np.zeros(num_parents))
        behind = _behind(system, depth, ordinal)
        levels.append(_Level(ordinal, first_link, num_each, behind, first_fabric, first_edge))
        num_parents = int((ordinal != ABSENT).sum())
    return Network(system, np.concatenate(capacities), np.concatenate(latencies), tuple(levels))


def _ordinals(system: System, depth: int) -> Numbers:
    """The number of every unit of a level, indexed by its path as a mixed-radix number; ABSENT where it is missing."""
    counts = [level.count for level in system.levels[:depth]]
    if not system.missing:
        return np.arange(math.prod(counts))
    ordinal = np.full(counts, ABSENT, np.int64)
    for number, path in enumerate(system.units(depth)):
        ordinal[path] = number
    return ordinal.reshape(-1)


def _links(system: System, depth: int, ordinal: Numbers) -> tuple[Numbers, Amounts, Amounts]:
    """The number of links of each unit of a level, and the capacity and latency of each directed link: out, in, out, in."""
    usual = system.levels[depth - 1].link
    assert usual is not None
    counts = [level.count for level in system.levels[:depth]]
    others = {
        int(ordinal[np.ravel_multi_index(path, counts)]): link
        for path, link in system.exceptions.items()
        if len(path) == depth
    }
    others.pop(ABSENT, None)
    is_device = depth == len(system.levels)
    num_units = int((ordinal != ABSENT).sum())
    table = np.tile([usual.bandwidth_out, usual.bandwidth_in, usual.latency, usual.num], (num_units, 1))
    for unit, link in others.items():
        table[unit] = (link.bandwidth_out, link.bandwidth_in, link.latency, link.num)
    num_each = table[:, 3].astype(np.int64)
    if is_device:
        table[:, :2] *= table[:, 3:]
        num_each = np.ones(num_units, np.int64)
    spread = np.repeat(table, num_each, axis=0)
    return num_each, spread[:, :2].reshape(-1), np.repeat(spread[:, 2], 2)


def _behind(system: System, depth: int, ordinal: Numbers) -> Numbers:
    """The number of the link that a device uses, indexed by unit and device; empty where no link has ``behind``."""
    links = [
        system.levels[depth - 1].link,
        *(link for path, link in system.exceptions.items() if len(path) == depth),
    ]
    if depth == len(system.levels) or not any(link is not None and link.behind for link in links):
        return np.empty((0, 0), np.int64)
    counts = [level.count for level in system.levels[depth:]]
    digits = np.unravel_index(np.arange(math.prod(counts)), counts)[0]
    rows = [system.link_of(path) for path in system.units(depth)]
    return np.array([link.behind if link.behind else digits % link.num for link in rows], np.int64)


def shortest_path(edges: Sequence[Edge | None], start: int, end: int) -> list[int] | None:
    """The directed edges of the best path: fewest hops, then widest, then lowest numbers; None without a path.

    Edge e is 2e from its first unit to its second, and 2e + 1 backwards.
    """
    ways: dict[int, list[tuple[int, float, int]]] = {}
    for number, edge in enumerate(edges):
        if edge is not None:
            ways.setdefault(edge.first, []).append((edge.second, edge.bandwidth, 2 * number))
            ways.setdefault(edge.second, []).append((edge.first, edge.bandwidth, 2 * number + 1))
    # A breadth-first search from the end: the distance of every unit, and the width of its widest shortest path.
    distance, width, layer = {end: 0}, {end: math.inf}, [end]
    while layer and start not in distance:
        following: list[int] = []
        for unit in layer:
            for other, bandwidth, _ in ways.get(unit, ()):
                if other not in distance:
                    distance[other], width[other] = distance[unit] + 1, 0.0
                    following.append(other)
                if distance[other] == distance[unit] + 1:
                    width[other] = max(width[other], min(bandwidth, width[unit]))
        layer = following
    if start not in distance:
        return None
    path: list[int] = []
    at = start
    while at != end:
        at, _, taken = min(
            (other, -bandwidth, number)
            for other, bandwidth, number in ways[at]
            if distance.get(other) == distance[at] - 1 and min(bandwidth, width[other]) >= width[start]
        )
        path.append(taken)
    return path
