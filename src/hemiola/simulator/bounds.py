"""Bounds: the time that no algorithm can beat for a collective on a system.

Three things take time, each alone a lower bound, and the largest decides.

*Bandwidth.* Cut the ranks into parts: what must enter a part, leave it, or pass between all parts (`crossings`) goes over
the links of the part, or of all parts together, and takes at least its bytes over their bandwidth. Whoever crosses a cut
also needs the latency of the shortest route across it, before or after its bytes, and one message's own cost. Cuts are
the units of every level, all units of a level together, and the units inside one unit together with all that is outside
it, whose one entry is what leaves that unit. A fabric with a bandwidth of its own carries everything between those parts,
and all edges of a mesh carry what is only moved once for every hop (`mesh_hops`).

*Latency.* A result that depends on a far rank's input comes no sooner than the shortest way from there.

*Additions.* A sum over n ranks takes n - 1 additions of each element, wherever they are made, unless a switch makes them.

The number of threadblocks is free, so what one can move is no bound, and neither are copies, which a plan may avoid.
Routes are free too: whatever links the runtime takes, all links of a cut together carry no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hemiola.collectives import KINDS, Collective
from hemiola.errors import TopologyError
from hemiola.simulator.crossings import Amounts, Crossings, Numbers, Parts, crossings
from hemiola.simulator.mesh_hops import bytes_times_hops, edge_capacity
from hemiola.simulator.units_of_ranks import Distances, UnitsOfRanks, check_connected, levels_of_units
from hemiola.topology.system import Protocol, System
from hemiola.units import LARGEST, format_bandwidth, format_bytes, format_seconds

Term = Literal["nothing", "bandwidth", "latency", "additions"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A time that no algorithm can beat, and what decides it."""

    seconds: float
    term: Term
    why: str
    """One sentence for people."""


MOST_IN_FLOW = 64
"""Up to this many ranks, flows through a mesh take less than a second."""

NOTHING = Bound(0.0, "nothing", "nothing has to be moved")


def lower_bound(
    collective: Collective, num_bytes: int, system: System, protocol: Protocol | None = None
) -> Bound:
    """The least seconds of a collective of ``num_bytes`` per rank's input (the root's where only it has one).

    Rank r runs on the system's r-th device. Without a protocol the links carry nothing but data and messages cost
    nothing, so the bound holds for every protocol.
    """
    n = collective.num_ranks
    if n > system.num_ranks:
        raise TopologyError(
            f"system {system.name!r} has {system.num_ranks} devices, but the {collective.kind} has {n} ranks"
        )
    if n == 1 or num_bytes == 0:
        return NOTHING
    levels = levels_of_units(system, n)
    check_connected(system, levels)
    question = _Question(collective, num_bytes, system, protocol or Protocol())
    terms = [question.latency(), *question.additions()]
    terms += question.flow()
    for units in levels:
        terms += [*question.level(units), *question.hops(units), *question.families(units, levels)]
    return max([NOTHING, *terms], key=lambda bound: bound.seconds)


@dataclass(frozen=True)
class _Question:
    collective: Collective
    num_bytes: int
    system: System
    protocol: Protocol

    def latency(self) -> Bound:
        """The longest of the shortest routes that results must come, and one message's own cost."""
        distances = Distances(self.system, self.collective.num_ranks)
        pairs = _dependent_pairs(self.collective)
        if pairs is None:
            seconds, src, dst = distances.diameter()
        else:
            each = distances.between(*pairs)
            if not len(each):
                return NOTHING
            farthest = int(each.argmax())
            seconds, src, dst = float(each[farthest]), int(pairs[0][farthest]), int(pairs[1][farthest])
        if src == dst:
            return NOTHING
        if math.isinf(seconds):
            raise TopologyError(f"no links lead from rank {src} to rank {dst} of system {self.system.name!r}")
        total = seconds + self.protocol.message_seconds
        return Bound(
            total,
            "latency",
            f"what rank {dst} gets depends on rank {src}, {format_seconds(total)} away",
        )

    def additions(self) -> Iterator[Bound]:
        """All additions over all who can add, each host no faster than its devices or its cores."""
        reduced_on_the_way = any(level.fabric.reduces for level in self.system.levels)
        kind = self.collective.kind
        if not KINDS[kind].sums or kind == "custom" or reduced_on_the_way:
            return
        compute, n = self.system.compute, self.collective.num_ranks
        devices = np.unique(self.system.host_of_rank[:n], return_counts=True)[1]
        each = min(compute.add_bandwidth, compute.core_bandwidth)
        together = min(compute.host_add_bandwidth, compute.host_core_bandwidth)
        rate = float(np.minimum(devices * each, together).sum())
        if math.isfinite(rate):
            amount = (n - 1) * self.num_bytes
            yield Bound(
                amount / rate,
                "additions",
                f"{_bytes(amount)} of sums have to be added, {format_bandwidth(rate)} by all devices together",
            )

    def flow(self) -> Iterator[Bound]:
        """In a mesh sets of units may be worse to leave than any unit; of few ranks, all sets are looked at."""
        kind, n = self.collective.kind, self.collective.num_ranks
        meshed = any(level.fabric.kind == "mesh" for level in self.system.levels)
        if (
            kind not in ("allgather", "reducescatter")
            or not meshed
            or not n == self.system.num_ranks <= MOST_IN_FLOW
        ):
            return
        # Flows need SciPy, whose import takes longer than everything else here, and most systems need no flows.
        from hemiola.simulator.throughput import allgather_rate, graph_of, reducescatter_rate

        graph = graph_of(self.system)
        if kind == "allgather":
            rate, each = allgather_rate(graph), float(self.num_bytes)
        else:
            rate, each = reducescatter_rate(graph), self.num_bytes / n
        num_inside = sum(vertex in rate.inside for vertex in graph.ranks)
        usable = rate.bytes_per_second * self.protocol.efficiency
        way = "leave" if kind == "allgather" else "reach"
        yield Bound(
            each / usable + self.protocol.message_seconds,
            "bandwidth",
            f"data of {num_inside} of the {n} ranks together can {way} them at {format_bandwidth(usable * num_inside)}",
        )

    def level(self, units: UnitsOfRanks) -> Iterator[Bound]:
        """The cuts around every unit of a level, and around all of them at once."""
        amounts = self._crossings(Parts.of(units.unit_of_rank), units.depth)
        latency = units.crossing_latency
        for way, bytes_each, capacity in (
            ("into", amounts.enters, units.capacity_in),
            ("out of", amounts.leaves, units.capacity_out),
        ):
            seconds = self._seconds(bytes_each, capacity, latency)
            slowest = int(seconds.argmax())
            where = f"the links {way} {self.system.describe(units.paths[slowest])}"
            yield self._bound(seconds[slowest], bytes_each[slowest], capacity[slowest], where)
        name = self.system.levels[units.depth - 1].name
        yield from self._together(
            amounts,
            float(units.capacity_in.sum()),
            float(units.capacity_out.sum()),
            float(latency.min()),
            f"all {len(units.paths)} {name}s",
        )
        bandwidth = self.system.levels[0].fabric.bandwidth
        if units.depth == 1 and not self._in_network(1):
            yield self._shared(amounts.received, bandwidth, f"the fabric of all {name}s")

    def hops(self, units: UnitsOfRanks) -> Iterator[Bound]:
        """All edges of a mesh that holds all ranks, where no other way leads around it."""
        if self.system.levels[units.depth - 1].fabric.kind != "mesh" or len(set(units.parents.tolist())) > 1:
            return
        amount = bytes_times_hops(self.collective, self.num_bytes, self.system, units)
        if amount:
            capacity = edge_capacity(self.system, units)
            name = self.system.levels[units.depth - 1].name
            where = f"all edges between the {name}s, a byte once for every hop,"
            yield self._bound(amount / (capacity * self.protocol.efficiency), amount, capacity, where)

    def families(self, units: UnitsOfRanks, levels: list[UnitsOfRanks]) -> Iterator[Bound]:
        """The cuts into the units inside one unit and, as one more part, all that is outside it."""
        if units.depth == 1:
            return
        outside, level = levels[units.depth - 2], self.system.levels[units.depth - 1]
        for parent in self._worth_looking_at(outside):
            inside = np.flatnonzero(units.parents == parent)
            amounts = self._crossings(_family(units, outside, parent, inside), units.depth)
            rest = len(outside.paths) > 1
            where = f"the {level.name}s of {self.system.describe(outside.paths[parent])}"
            yield from self._together(
                amounts,
                float(units.capacity_in[inside].sum() + rest * outside.capacity_out[parent]),
                float(units.capacity_out[inside].sum() + rest * outside.capacity_in[parent]),
                float(units.crossing_latency[inside].min()),
                f"{where} and to all others" if rest else where,
            )
            # What enters or leaves a mesh from outside does not cross it.
            if not self._in_network(units.depth) and not (rest and level.fabric.kind == "mesh"):
                yield self._shared(amounts.received, level.fabric.bandwidth, f"the fabric of {where}")

    def _worth_looking_at(self, units: UnitsOfRanks) -> list[int]:
        """All units; of a uniform system, whose units are alike but for the root and the ends, one of each kind."""
        n = self.collective.num_ranks
        if not self.system.is_uniform or n < self.system.num_ranks:
            return list(range(len(units.paths)))
        ranks = [0, n // 2, n - 1, self.collective.root, self.collective.peer]
        return sorted({int(units.unit_of_rank[rank]) for rank in ranks})

    def _crossings(self, parts: Parts, depth: int) -> Crossings:
        """What passes between parts; fabrics inside the parts, deeper than ``depth``, have no say in it."""
        between = [level.fabric for level in self.system.levels[:depth]]
        return crossings(
            self.collective,
            self.num_bytes,
            parts,
            reduces=any(fabric.reduces for fabric in between),
            multicasts=any(fabric.multicasts for fabric in between),
        )

    def _in_network(self, depth: int) -> bool:
        return any(level.fabric.reduces or level.fabric.multicasts for level in self.system.levels[:depth])

    def _together(
        self, amounts: Crossings, into: float, out: float, latency: float, where: str
    ) -> Iterator[Bound]:
        for way, num_bytes, capacity in (("into", amounts.received, into), ("out of", amounts.sent, out)):
            seconds = self._seconds(np.array([num_bytes]), np.array([capacity]), np.array([latency]))
            yield self._bound(seconds[0], num_bytes, capacity, f"the links {way} {where} together")

    def _shared(self, num_bytes: float, bandwidth: float, where: str) -> Bound:
        usable = bandwidth * self.protocol.efficiency
        return self._bound(num_bytes / usable, num_bytes, bandwidth, where)

    def _seconds(self, num_bytes: Amounts, capacity: Amounts, latency: Amounts) -> Amounts:
        moved = num_bytes > 0
        flowing = np.divide(
            num_bytes, capacity * self.protocol.efficiency, out=np.zeros(len(moved)), where=moved
        )
        return np.where(moved, flowing + latency + self.protocol.message_seconds, 0.0)

    def _bound(self, seconds: float, num_bytes: float, capacity: float, where: str) -> Bound:
        if seconds == 0 or math.isinf(capacity):
            return NOTHING
        usable = format_bandwidth(capacity * self.protocol.efficiency)
        return Bound(float(seconds), "bandwidth", f"{where} carry {_bytes(num_bytes)} at {usable}")


def _family(units: UnitsOfRanks, outside: UnitsOfRanks, parent: int, inside: Numbers) -> Parts:
    """The ranks of a unit by the units inside it, and all other ranks as the last part."""
    part_of_unit = np.full(len(units.paths), len(inside))
    part_of_unit[inside] = np.arange(len(inside))
    return Parts.of(part_of_unit[units.unit_of_rank])


def _bytes(amount: float) -> str:
    """An amount for people, however large."""
    return format_bytes(round(amount)) if amount <= LARGEST else "more than 8EiB"


def _dependent_pairs(c: Collective) -> tuple[Numbers, Numbers] | None:
    """Ranks whose input others' results depend on, and these; None where everybody depends on everybody."""
    ranks = np.arange(c.num_ranks)
    root = np.full_like(ranks, c.root)
    match c.kind:
        case "broadcast" | "scatter":
            return root, ranks
        case "reduce" | "gather":
            return ranks, root
        case "alltonext":
            return ranks[:-1], ranks[1:]
        case "sendrecv":
            return np.array([c.root]), np.array([c.peer])
        case "custom":
            pairs = {(origin, rank) for (rank, _, _), found in c.meaning().promises() for origin, _ in found}
            table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
            return table[:, 0], table[:, 1]
        case _:
            return None
