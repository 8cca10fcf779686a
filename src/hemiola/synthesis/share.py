"""share: the part of a machine that one reduction gets, as a system of its own.

A placement is a matrix: a row for each axis, a column for each level, and how many units of the level the axis is split
over. A reduction over some axes runs in one group for every combination of the other axes' coordinates, all at the same
time. Seen from one group, a level has as many units as its reduction axes are split over, and every link carries the other
groups' traffic as well, so a group has its part of the bandwidth. That system is small, and bounds, plans and
replays work on it as on any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from hemiola.errors import ReductionError, TopologyError
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, System

Matrix = tuple[tuple[int, ...], ...]
"""Rows are axes, columns are levels."""


def factors_of(matrix: Matrix, rows: Sequence[int]) -> tuple[int, ...]:
    """For each level, over how many units the reduction axes are split, all together; 1 where they are not."""
    return tuple(prod(matrix[row][level] for row in rows) for level in range(len(matrix[0])))


def device_groups(matrix: Matrix, rows: Sequence[int]) -> list[tuple[int, ...]]:
    """The devices of every reduction group, in order; one group for each combination of the other coordinates.

    A device's digit at a level splits into one sub-digit for each axis, the first axis the most significant.
    """
    num_axes, num_levels = len(matrix), len(matrix[0])
    shape = [matrix[axis][level] for level in range(num_levels) for axis in range(num_axes)]
    reduced = [level * num_axes + axis for level in range(num_levels) for axis in sorted(set(rows))]
    others = [one for one in range(len(shape)) if one not in set(reduced)]
    devices = np.arange(prod(shape)).reshape(shape).transpose(others + reduced)
    size = prod(factors_of(matrix, rows))
    return [tuple(group) for group in devices.reshape(-1, size).tolist()]


def shared_system(system: System, matrix: Matrix, rows: Sequence[int]) -> System:
    """What one reduction group has of a machine while the groups of all other coordinates run the same program.

    The slowest unit of a level stands for all of them.
    """
    _check(system, matrix)
    factors = factors_of(matrix, rows)
    levels = []
    for number, (level, factor) in enumerate(zip(system.levels, factors, strict=True)):
        inside = prod(
            one.count // own
            for one, own in zip(system.levels[number + 1 :], factors[number + 1 :], strict=True)
        )
        around = inside * (level.count // factor)
        link = _slowest(system, number)
        if link is None:
            levels.append(_part_of_mesh(level, _digits(matrix, rows, number), inside))
        else:
            fabric = replace(level.fabric, bandwidth=level.fabric.bandwidth / around)
            levels.append(Level(level.name, factor, _part_of_link(link, inside), fabric))
    sharing = prod(level.count for level in system.levels[system.host_depth :]) // prod(
        factors[system.host_depth :]
    )
    compute = system.compute
    return System(
        f"{system.name} shared by {prod(level.count for level in system.levels) // prod(factors)}",
        tuple(levels),
        compute=Compute(
            compute.add_bandwidth,
            compute.copy_bandwidth,
            compute.host_add_bandwidth / sharing,
            compute.host_copy_bandwidth / sharing,
            compute.core_bandwidth,
            compute.host_core_bandwidth / sharing,
        ),
        protocols=system.protocols,
    )


def _digits(matrix: Matrix, rows: Sequence[int], level: int) -> list[int]:
    """The units of a level that the first group has."""
    shape = [row[level] for row in matrix]
    first = tuple(slice(None) if axis in rows else 0 for axis in range(len(matrix)))
    return sorted(np.atleast_1d(np.arange(prod(shape)).reshape(shape)[first]).reshape(-1).tolist())


def _check(system: System, matrix: Matrix) -> None:
    if system.missing:
        raise TopologyError(
            f"system {system.name!r} has missing units, and a placement needs levels without holes; leave the whole"
            " units out that have them"
        )
    counts = tuple(level.count for level in system.levels)
    columns = tuple(prod(column) for column in zip(*matrix, strict=True)) if matrix else ()
    if columns != counts:
        raise ReductionError(
            f"the columns of the matrix multiply to {list(columns)}, but the levels of system {system.name!r} have"
            f" {list(counts)} units"
        )


def _slowest(system: System, number: int) -> Link | None:
    links = [system.levels[number].link]
    links += [link for path, link in system.exceptions.items() if len(path) == number + 1]
    known = [link for link in links if link is not None]
    return min(known, key=lambda link: min(link.bandwidth_in, link.bandwidth_out) * link.num, default=None)


def _part_of_link(link: Link, sharing: int) -> Link:
    """As many whole links as a group gets, or its part of one."""
    num = max(1, link.num // sharing)
    scale = link.num / sharing / num
    return replace(link.scaled(scale), num=num, behind=())


def _part_of_mesh(level: Level, digits: Sequence[int], sharing: int) -> Level:
    """The direct links between a group's own units, where they join all of them; otherwise a switch of the same strength.

    Units that are not neighbours reach each other through those of other groups: of n units m are the group's, a hop takes
    about n / m links, and everybody has m / n of what a unit can send.
    """
    place = {digit: number for number, digit in enumerate(digits)}
    edges = tuple(
        Edge(place[edge.first], place[edge.second], edge.bandwidth / sharing, edge.latency)
        for edge in level.fabric.edges
        if edge.first in place and edge.second in place
    )
    if len(digits) == 1 or _joins_all(edges, len(digits)):
        return Level(level.name, len(digits), None, replace(level.fabric, edges=edges))
    each = [
        sum(edge.bandwidth for edge in level.fabric.edges if unit in (edge.first, edge.second))
        for unit in range(level.count)
    ]
    bandwidth = min(each) * len(digits) / level.count / sharing
    latency = max(edge.latency for edge in level.fabric.edges)
    return Level(level.name, len(digits), Link(bandwidth, bandwidth, latency), Fabric())


def _joins_all(edges: Sequence[Edge], num_units: int) -> bool:
    reached, left = {0}, [0]
    while left:
        unit = left.pop()
        for edge in edges:
            for one, other in ((edge.first, edge.second), (edge.second, edge.first)):
                if one == unit and other not in reached:
                    reached.add(other)
                    left.append(other)
    return len(reached) == num_units
