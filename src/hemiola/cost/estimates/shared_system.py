"""shared_system: the part of a machine that one group of a request gets while the other groups run, as a system of its own.

The groups of a request run at the same time. Seen from one group, a level has as many units as the group is split over, and every
link carries the other groups' traffic as well, so a group has its part of the bandwidth. That system is small, and
closed forms work on it as on any other: it is an estimate, since groups do not always share links evenly. Prices replay
all groups on the whole system instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import numpy.typing as npt

from hemiola.cost.group_shape import regular_factors
from hemiola.errors import TopologyError
from hemiola.topology.system import Compute, Edge, Fabric, Level, Link, System

Numbers = npt.NDArray[np.int64]


def shared_system(system: System, groups: Numbers) -> System:
    """What one group has of a machine while all others run; a row of ``groups`` for each, devices in order.

    The slowest unit of a level stands for all of them.
    """
    factors = regular_factors(system, groups)
    if factors is None:
        raise TopologyError(
            f"the groups of system {system.name!r} are not split over its levels in the same way, so that no one of them stands"
            " for the others"
        )
    if system.missing:
        raise TopologyError(
            f"system {system.name!r} has missing units, and an estimate by levels needs levels without holes; leave the whole"
            " units out that have them"
        )
    first = np.array([system.devices[device] for device in groups[0]])
    levels = []
    for number, (level, factor) in enumerate(zip(system.levels, factors, strict=True)):
        inside = prod(
            one.count // own
            for one, own in zip(system.levels[number + 1 :], factors[number + 1 :], strict=True)
        )
        around = inside * (level.count // factor)
        link = _slowest(system, number)
        if link is None:
            levels.append(_part_of_mesh(level, np.unique(first[:, number]).tolist(), inside))
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
