"""mesh_hops: in a mesh, data that is only moved takes an edge for every hop, and all edges together carry no more.

Of a collective that neither sums nor copies, every byte goes from its rank to one other, over at least as many edges as the
shortest path between their units has. So bytes times hops, over all edges in both directions, is a lower bound: in a ring of n
all-to-all takes about n / 8 S over one link, where the links of a single rank would allow half an S.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hemiola.collectives import Collective, CollectiveKind
from hemiola.cost.bounds.level_capacities import LevelCapacities, edges_there, shortest
from hemiola.topology.system import Edge, System

Amounts = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


def bytes_times_hops(
    collective: Collective, num_bytes: float, system: System, units: LevelCapacities, group: Numbers
) -> float | None:
    """What all edges of the mesh around all ranks must carry for one group; None for collectives that sum or copy."""
    moved = _moved(collective, units.unit_of_rank[group], len(units.paths))
    if moved is None:
        return None
    around = units.paths[0][:-1]
    edges = [Edge(edge.first, edge.second, edge.bandwidth, 1.0) for edge in edges_there(system, around)]
    places = [path[-1] for path in units.paths]
    count = system.levels[units.depth - 1].count
    hops = np.array([np.array(shortest(edges, count, place))[places] for place in places])
    return float((moved * hops)[moved > 0].sum()) * num_bytes


def edge_capacity(system: System, units: LevelCapacities) -> float:
    """Bytes per second of all edges of the mesh around all ranks, in both directions."""
    return 2 * sum(edge.bandwidth for edge in edges_there(system, units.paths[0][:-1]))


def _moved(c: Collective, unit_of_rank: Numbers, num_units: int) -> Amounts | None:
    """What goes from each unit to each, in parts of the bytes of the collective."""
    sizes = np.bincount(unit_of_rank, minlength=num_units).astype(np.float64)
    table = np.zeros((len(sizes), len(sizes)))
    root = int(unit_of_rank[c.root])
    match c.kind:
        case CollectiveKind.ALLTOALL:
            table = np.outer(sizes, sizes) / c.num_ranks
        case CollectiveKind.GATHER:
            table[:, root] = sizes / c.num_ranks
        case CollectiveKind.SCATTER:
            table[root] = sizes / c.num_ranks
        case CollectiveKind.ALLTONEXT:
            np.add.at(table, (unit_of_rank[:-1], unit_of_rank[1:]), 1.0)
        case CollectiveKind.SENDRECV:
            table[root, unit_of_rank[c.peer]] = 1.0
        case _:
            return None
    return table
