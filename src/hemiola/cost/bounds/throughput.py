"""Throughput: the best rate at which large data can be gathered or reduced on any graph of links, by maximum flow.

Let every rank send x bytes a second to all others. Out of a set of vertices with k ranks inside and at least one outside,
k x bytes a second must leave, so x is at most its capacity over k. Where every switch can send as fast as it receives, the
smallest such quotient is also reached, by trees packed into the links (Edmonds 1973; with switches among the vertices,
Bang-Jensen, Frank and Jackson 1995); otherwise only switches that multicast could. It is found
without looking at all sets: a source that offers x to every rank can send n x to each rank in turn, or else the
minimum cut is a set whose quotient is below x. With that as the next x, the search ends at the set that decides, after
few rounds, because every round finds a set with fewer ranks or less capacity (Dinkelbach 1967).

Reduce-scatter is all-gather backwards. The rate of an all-reduce is in `rooted_sums`.

Flows are computed on whole numbers, and cuts whose quotients differ by less than a millionth may not be told apart. The
rate comes from the cut itself, so it is never below the best one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from hemiola.errors import TopologyError
from hemiola.topology.system import Path, System

LARGEST_FLOW = 1 << 30
"""The flow is computed with 32-bit numbers; what the source offers in all is scaled to this."""
MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Graph:
    """Directed links between ranks and switches."""

    num_vertices: int
    ranks: tuple[int, ...]
    """The vertex of every rank; the others only pass on."""
    sources: npt.NDArray[np.int64]
    destinations: npt.NDArray[np.int64]
    capacities: npt.NDArray[np.float64]
    """Bytes per second from source to destination."""

    @staticmethod
    def of(num_vertices: int, ranks: tuple[int, ...], links: dict[tuple[int, int], float]) -> Graph:
        """From capacities by (src, dst)."""
        ends = np.array(sorted(links), np.int64).reshape(-1, 2)
        capacities = np.array([links[src, dst] for src, dst in ends.tolist()], np.float64)
        return Graph(num_vertices, ranks, ends[:, 0], ends[:, 1], capacities)

    def reversed(self) -> Graph:
        """Every link the other way."""
        return Graph(self.num_vertices, self.ranks, self.destinations, self.sources, self.capacities)

    def leaving(self, inside: npt.NDArray[np.bool_]) -> float:
        """Bytes per second out of a set of vertices."""
        crosses = inside[self.sources] & ~inside[self.destinations]
        return float(self.capacities[crosses].sum())


@dataclass(frozen=True)
class Rate:
    """The best rate, and the set of vertices that decides it."""

    bytes_per_second: float
    """What every rank can send to all others at once."""
    inside: frozenset[int]
    """The vertices that the data cannot leave faster."""

    def gathered_per_second(self, num_ranks: int) -> float:
        """Of the whole result, the inputs of all ranks together."""
        return num_ranks * self.bytes_per_second


def allgather_rate(graph: Graph) -> Rate:
    """The most bytes per second of its own input that every rank can get to all others at once."""
    if len(graph.ranks) < 2:
        raise TopologyError(f"a rate is that of two ranks or more, and there are {len(graph.ranks)}")
    is_rank = np.zeros(graph.num_vertices, np.int64)
    is_rank[list(graph.ranks)] = 1
    everything = np.ones(graph.num_vertices, np.bool_)
    everything[graph.ranks[-1]] = False
    cut = everything
    rate = graph.leaving(cut) / int(is_rank[cut].sum())
    for _ in range(MOST_ROUNDS):
        found = _worse_cut(graph, is_rank, rate)
        if found is None:
            return Rate(rate, frozenset(np.flatnonzero(cut).tolist()))
        rate, cut = found
    raise AssertionError("the search for the cut that decides did not end")


def reducescatter_rate(graph: Graph) -> Rate:
    """The most bytes per second of its own share that every rank can get summed at once."""
    return allgather_rate(graph.reversed())


Cut = tuple[float, npt.NDArray[np.bool_]]


def _worse_cut(graph: Graph, is_rank: npt.NDArray[np.int64], rate: float) -> Cut | None:
    """The worst of the sets that a flow to some rank finds to have a smaller quotient than ``rate``, or None."""
    if rate == 0:
        return None
    network, source = _network(graph, rate)
    worst: Cut | None = None
    for sink in graph.ranks:
        inside = _source_side(network, source, sink)[: graph.num_vertices]
        num_inside = int(is_rank[inside].sum())
        if not num_inside:
            continue
        quotient = graph.leaving(inside) / num_inside
        if quotient < rate * (1 - 1e-12) and (worst is None or quotient < worst[0]):
            worst = quotient, inside
    return worst


def _network(graph: Graph, rate: float) -> tuple[csr_array, int]:
    """The graph in whole numbers with a source that offers ``rate`` to every rank, and that source."""
    source, n = graph.num_vertices, len(graph.ranks)
    scale = LARGEST_FLOW / (n * rate)
    # No link carries more than all that is offered, so larger ones are cut to it.
    whole = np.minimum(np.round(graph.capacities * scale), LARGEST_FLOW).astype(np.int32)
    offers = np.full(n, LARGEST_FLOW // n, np.int32)
    rows = np.concatenate([graph.sources, np.full(n, source)]).astype(np.int32)
    columns = np.concatenate([graph.destinations, graph.ranks]).astype(np.int32)
    shape = (source + 1, source + 1)
    return csr_array((np.concatenate([whole, offers]), (rows, columns)), shape=shape), source


def _source_side(network: csr_array, source: int, sink: int) -> npt.NDArray[np.bool_]:
    """The vertices that the source still reaches when the flow to ``sink`` is as large as it can be."""
    flow = maximum_flow(network, source, sink).flow
    left = (network - flow).tocsr()
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    inside = np.zeros(network.shape[0], np.bool_)
    inside[reached] = True
    return inside


def graph_of(system: System) -> Graph:
    """A system as a graph: devices, the switches of every unit, and for the inside of a mesh its ways out and in.

    Rails count as one switch: who must change the rail can do so inside a unit. A fabric's own bandwidth is left out.
    """
    return _GraphMaker(system).make()


class _GraphMaker:
    """Numbers vertices as they are met and adds up parallel links."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._numbers: dict[tuple[str, Path], int] = {}
        self._links: dict[tuple[int, int], float] = {}

    def make(self) -> Graph:
        ranks = tuple(self._vertex("device", path) for path in self._system.devices)
        for depth in range(1, len(self._system.levels) + 1):
            units = list(self._system.units(depth))
            if len(units) > 1:  # what is around all ranks carries nothing
                for path in units:
                    self._join(path)
        # A way that limits nothing carries no more than all others together.
        enough = sum(capacity for capacity in self._links.values() if capacity < np.inf)
        links = {ends: min(capacity, enough) for ends, capacity in self._links.items()}
        return Graph.of(len(self._numbers), ranks, links)

    def _vertex(self, what: str, path: Path) -> int:
        return self._numbers.setdefault((what, path), len(self._numbers))

    def _link(self, src: int, dst: int, capacity: float) -> None:
        self._links[src, dst] = self._links.get((src, dst), 0.0) + capacity

    def _ends(self, path: Path) -> tuple[int, int]:
        """Where a unit's links out begin and those in end: the device, its switch, or the ways out and in."""
        if len(path) == len(self._system.levels):
            device = self._vertex("device", path)
            return device, device
        if self._system.levels[len(path)].fabric.kind != "mesh":
            switch = self._vertex("switch", path)
            return switch, switch
        return self._vertex("out", path), self._vertex("in", path)

    def _join(self, path: Path) -> None:
        """Add the links of a unit to the fabric around it."""
        out, into = self._ends(path)
        if self._system.levels[len(path) - 1].fabric.kind == "mesh":
            self._join_mesh(path, out, into)
            return
        link = self._system.link_of(path)
        switch = self._vertex("switch", path[:-1])
        self._link(out, switch, link.num * link.bandwidth_out)
        self._link(switch, into, link.num * link.bandwidth_in)

    def _join_mesh(self, path: Path, out: int, into: int) -> None:
        """The edges that begin at a unit, both ways; who leaves or enters the mesh does not cross it."""
        around = path[:-1]
        if around:
            self._links[out, self._vertex("out", around)] = np.inf
            self._links[self._vertex("in", around), into] = np.inf
        for edge in self._system.levels[len(around)].fabric.edges:
            other = (*around, edge.second)
            if edge.first == path[-1] and other not in self._system.missing:
                other_out, other_in = self._ends(other)
                self._link(out, other_in, edge.bandwidth)
                self._link(other_out, into, edge.bandwidth)
