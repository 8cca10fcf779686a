"""Costs of exchanges inside a mesh, whose units are not all alike: read off the routes of one mesh."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hemiola.cost.estimates.link_costs import Amounts, LinkCosts, Numbers
from hemiola.topology.network import Network, network_of
from hemiola.topology.system import ProtocolCosts, System

MOST_PAIRS = 1 << 16
"""Of one mesh; in larger groups only rings are looked at."""


@dataclass(frozen=True, slots=True)
class MeshCost:
    """Seconds for each byte that all devices send inside groups of units, and the latency of the longest route."""

    ring: float
    chain: float
    pairs: float
    latency: float


NO_COST = MeshCost(0.0, 0.0, 0.0, 0.0)


def mesh_costs(
    costs: LinkCosts, matrices: Numbers, over: Sequence[int], level: int
) -> tuple[Amounts, Amounts, Amounts, Amounts]:
    """For every matrix, the costs of groups over some axes in the meshes of a level: ring, chain, pairs, latency."""
    columns, which = np.unique(matrices[:, :, level], axis=0, return_inverse=True)
    mesh = _mesh_of(costs, level)
    found = [_cost(mesh, column.tolist(), over) for column in columns]
    rows = [(cost.ring, cost.chain, cost.pairs, cost.latency) for cost in found]
    each = np.array(rows)[which.reshape(-1)]
    many = float(costs.inside[level])
    return each[:, 0] * many, each[:, 1] * many, each[:, 2] * many, each[:, 3]


def _mesh_of(costs: LinkCosts, level: int) -> Network:
    """One mesh as a system of its own."""
    one = costs.system.levels[level]
    plain = replace(one, fabric=replace(one.fabric, bandwidth=math.inf))
    return network_of(System("mesh", (plain,)), ProtocolCosts(efficiency=costs.efficiency))


def _cost(mesh: Network, column: list[int], over: Sequence[int]) -> MeshCost:
    grid = np.arange(math.prod(column)).reshape(column)
    others = [axis for axis in range(len(column)) if axis not in over]
    groups = grid.transpose([*others, *over]).reshape(-1, math.prod(column[axis] for axis in over))
    size = groups.shape[1]
    if size == 1:
        return NO_COST
    ring, latency = _seconds(mesh, groups, np.roll(groups, -1, axis=1), 1.0)
    chain, _ = _seconds(mesh, groups[:, :-1], groups[:, 1:], 1.0)
    if groups.size * (size - 1) > MOST_PAIRS:
        return MeshCost(ring, chain, ring * size, latency)
    src = np.concatenate([groups for _ in range(1, size)])
    dst = np.concatenate(list(_rolled(groups, size)))
    pairs, farthest = _seconds(mesh, src, dst, 1 / (size - 1))
    return MeshCost(ring, chain, pairs, max(latency, farthest))


def _rolled(groups: Numbers, size: int) -> Iterator[Numbers]:
    return (np.roll(groups, -distance, axis=1) for distance in range(1, size))


def _seconds(mesh: Network, src: Numbers, dst: Numbers, num_bytes: float) -> tuple[float, float]:
    """The time of the busiest edge, and the latency of the longest route."""
    first, hops = mesh.routes(src.reshape(-1), dst.reshape(-1))
    loads = np.bincount(hops, minlength=mesh.num_links) * num_bytes
    latencies = np.add.reduceat(mesh.latencies[hops], first[:-1])
    return float((loads / mesh.capacities).max()), float(latencies.max())
