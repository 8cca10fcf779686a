"""Rings of NCCL and RCCL: every ring enters and leaves a host at another device, so that all NICs are used.

``levels`` are (hosts, devices of a host). Ring c goes through the devices of each host in order, from device c on, then to the next
host. The data is cut into as many parts as there are rings, and every ring carries its part as a library ring does.

    levels 2,4, ring 1:  1 2 3 0  5 6 7 4

On a host whose devices are a full mesh, rings that share no link use all of them (RCCL has such a set for eight GPUs).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hemiola.algorithms.buffer_places import GatherPlace, SumPlace
from hemiola.algorithms.exchanges import RING
from hemiola.algorithms.shapes import nodes_by_local, require
from hemiola.algorithms.start_program import start_program
from hemiola.collectives import AllGather, AllReduce, Collective, CollectiveKind, ReduceScatter
from hemiola.errors import ProgramError
from hemiola.language.program import INPUT, OUTPUT, Program

MOST_SEARCHED = 12
"""Devices of a mesh whose rings are searched for."""


def vendor_rings(
    kind: CollectiveKind,
    *,
    levels: tuple[int, ...],
    mesh: bool = False,
    instances: int = 1,
    protocol: str = "Simple",
) -> Program:
    """An all-reduce, all-gather or reduce-scatter in place on one ring for every device of a host."""
    require("vendor_rings", nodes_by_local(ranks=levels[0] * levels[-1], levels=levels))
    hosts, local = levels
    inside = ring_orders(hosts, local, mesh=mesh)
    ranks, num_rings = hosts * local, len(inside)
    collective = _collective(kind, ranks, num_rings)
    p = start_program(f"{kind}_rings", collective, instances=instances, protocol=protocol)
    for ring, places in enumerate(inside):
        order = [host * local + place for host in range(hosts) for place in places]
        blocks = [((_chunk(kind, rank, ring, ranks, num_rings), 1),) for rank in order]
        with p.channel(ring):  # rings have neighbours in common, and each has threadblocks of its own
            if kind is not CollectiveKind.ALLGATHER:
                RING.reduce_scatter(p, order, blocks, SumPlace(INPUT, INPUT))
            if kind is not CollectiveKind.REDUCESCATTER:
                RING.all_gather(p, order, blocks, GatherPlace(_kept(kind)))
    return p


def ring_orders(hosts: int, local: int, *, mesh: bool) -> tuple[tuple[int, ...], ...]:
    """The order in which each ring goes through the devices of a host."""
    if mesh and hosts == 1 and (found := disjoint_rings(local)):
        return found
    return tuple(tuple((ring + k) % local for k in range(local)) for ring in range(local if hosts > 1 else 1))


@lru_cache
def disjoint_rings(num_devices: int) -> tuple[tuple[int, ...], ...]:
    """Rings that together use every directed link of a full mesh once; none for 4 and 6 devices, where there are no such rings."""
    if num_devices in (4, 6) or not 2 <= num_devices <= MOST_SEARCHED:
        return ()
    used = np.eye(num_devices, dtype=bool)
    rings: list[tuple[int, ...]] = []
    return tuple(rings) if _find_ring(used, rings, [0]) else ()


def _find_ring(used: npt.NDArray[np.bool_], rings: list[tuple[int, ...]], path: list[int]) -> bool:
    """Extend a path over links that are free, and begin the next ring where it closes."""
    at, n = path[-1], len(used)
    if len(path) == n:
        if used[at, 0]:
            return False
        used[at, 0] = True
        rings.append(tuple(path))
        if len(rings) == n - 1 or _find_ring(used, rings, [0]):
            return True
        rings.pop()
        used[at, 0] = False
        return False
    for device in range(1, n):
        if device not in path and not used[at, device]:
            used[at, device] = True
            if _find_ring(used, rings, [*path, device]):
                return True
            used[at, device] = False
    return False


def _collective(kind: CollectiveKind, ranks: int, num_rings: int) -> Collective:
    if kind is CollectiveKind.ALLREDUCE:
        return AllReduce(ranks, ranks * num_rings, in_place=True)
    if kind is CollectiveKind.ALLGATHER:
        return AllGather(ranks, num_rings, in_place=True)
    if kind is CollectiveKind.REDUCESCATTER:
        return ReduceScatter(ranks, num_rings, in_place=True)
    raise ProgramError(f"rings carry an allreduce, allgather or reducescatter, but not a {kind}")


def _chunk(kind: CollectiveKind, rank: int, ring: int, ranks: int, num_rings: int) -> int:
    """Of an all-reduce a ring has neighbouring chunks; of the others, every share has a chunk for each ring."""
    return ring * ranks + rank if kind is CollectiveKind.ALLREDUCE else rank * num_rings + ring


def _kept(kind: CollectiveKind) -> str:
    return INPUT if kind is CollectiveKind.ALLREDUCE else OUTPUT
