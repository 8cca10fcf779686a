"""lower_bound: the time that no algorithm can beat for a collective on a system, in one group or in several at once.

Three things take time, each alone a lower bound, and the largest decides.

*Bandwidth.* Cut the ranks into parts: what must enter a part, leave it, or pass between all parts (`cut_traffic`) goes over
the links of the part, or of all parts together, and takes at least its bytes over their bandwidth. What groups that run
at once must move adds up. Whoever crosses a cut
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
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hemiola.collectives import Collective, CollectiveKind
from hemiola.cost.bounds.cut_traffic import Amounts, CutTraffic, Numbers, Parts, cut_traffic
from hemiola.cost.bounds.level_capacities import Distances, LevelCapacities, check_connected, level_capacities
from hemiola.cost.bounds.mesh_hops import bytes_times_hops, edge_capacity
from hemiola.cost.group_shape import regular_factors
from hemiola.errors import TopologyError
from hemiola.topology.system import Path, ProtocolCosts, System
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

ANY_ORDER = (
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCESCATTER,
    CollectiveKind.ALLTOALL,
)
"""Collectives of which all ranks do the same, so that only how many are in a part counts."""

NOTHING = Bound(0.0, "nothing", "nothing has to be moved")


Groups = npt.NDArray[np.int64]
"""A row for each group: the devices of its ranks, in their order."""


def lower_bound(
    collective: Collective,
    num_bytes: float,
    system: System,
    protocol: ProtocolCosts | None = None,
    *,
    groups: Sequence[Sequence[int]] | Groups | None = None,
) -> Bound:
    """The least seconds of a collective of ``num_bytes`` (`collectives.kinds` says of what).

    Rank r runs on the system's r-th device. With ``groups``, the collective runs in each of them at once, and rank r of a group
    on its r-th device; the bound is that of the last one to finish. Without a protocol the links carry nothing but data
    and messages cost nothing, so the bound holds for every protocol.
    """
    n = collective.num_ranks
    if groups is None and n > system.num_ranks:
        raise TopologyError(
            f"system {system.name!r} has {system.num_ranks} devices, but the {collective.kind} has {n} ranks"
        )
    table = np.arange(n).reshape(1, n) if groups is None else np.asarray(groups, np.int64)
    if n == 1 or num_bytes == 0 or not len(table):
        return NOTHING
    used, numbers = np.unique(table, return_inverse=True)
    if used.size != table.size or table.shape[1] != n or used[0] < 0 or used[-1] >= system.num_ranks:
        raise TopologyError(
            f"groups of {n} ranks each on different devices 0 to {system.num_ranks - 1} were expected, for a {collective.kind}"
            f" of {n} ranks; found {table.shape[0]} of {table.shape[1]} on {used.size} devices"
        )
    devices = [system.devices[device] for device in used.tolist()]
    levels = level_capacities(system, devices)
    check_connected(system, levels)
    terms = _Terms(
        collective, num_bytes, system, protocol or ProtocolCosts(), numbers.reshape(table.shape), devices
    )
    found = [terms.latency(), *terms.additions(), *terms.flow()]
    for units in levels:
        found += [*terms.level(units), *terms.hops(units), *terms.families(units, levels)]
    return max([NOTHING, *found], key=lambda bound: bound.seconds)


@dataclass(frozen=True)
class _Terms:
    """The three kinds of terms; ranks are numbered through all groups, in the order of their devices."""

    collective: Collective
    num_bytes: float
    system: System
    protocol: ProtocolCosts
    groups: Numbers
    """A row for each group: numbers of ``devices``."""
    devices: list[Path]

    def latency(self) -> Bound:
        """The longest of the shortest routes that results must come, and one message's own cost."""
        first = self.groups[0]
        distances = Distances(self.system, [self.devices[number] for number in first.tolist()])
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
        kind, compute = self.collective.kind, self.system.compute
        if kind is CollectiveKind.CUSTOM or reduced_on_the_way:
            return
        hosts = [device[: self.system.host_depth] for device in self.devices]
        devices = np.array(list(Counter(hosts).values()))
        each = min(compute.add_bandwidth, compute.core_bandwidth)
        together = min(compute.host_add_bandwidth, compute.host_core_bandwidth)
        rate = float(np.minimum(devices * each, together).sum())
        amount = len(self.groups) * kind.facts.added_bytes(self.num_bytes, self.collective.num_ranks)
        if amount and math.isfinite(rate):
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
            kind not in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCESCATTER)
            or not meshed
            or not n == self.system.num_ranks <= MOST_IN_FLOW
        ):
            return
        # Flows need SciPy, whose import takes longer than everything else here, and most systems need no flows.
        from hemiola.cost.bounds.throughput import allgather_rate, graph_of, reducescatter_rate

        graph, each = graph_of(self.system), self.num_bytes / n
        rate = allgather_rate(graph) if kind is CollectiveKind.ALLGATHER else reducescatter_rate(graph)
        num_inside = sum(vertex in rate.inside for vertex in graph.ranks)
        usable = rate.bytes_per_second * self.protocol.efficiency
        way = "leave" if kind is CollectiveKind.ALLGATHER else "reach"
        yield Bound(
            each / usable + self.protocol.message_seconds,
            "bandwidth",
            f"data of {num_inside} of the {n} ranks together can {way} them at {format_bandwidth(usable * num_inside)}",
        )

    def level(self, units: LevelCapacities) -> Iterator[Bound]:
        """The cuts around every unit of a level, and around all of them at once."""
        amounts = self._traffic(units.unit_of_rank, units.depth)
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

    def hops(self, units: LevelCapacities) -> Iterator[Bound]:
        """All edges of a mesh that holds all ranks, where no other way leads around it."""
        if self.system.levels[units.depth - 1].fabric.kind != "mesh" or len(set(units.parents.tolist())) > 1:
            return
        amounts = [
            bytes_times_hops(self.collective, self.num_bytes, self.system, units, group)
            for group in self.groups
        ]
        amount = sum(one or 0.0 for one in amounts)
        if amount:
            capacity = edge_capacity(self.system, units)
            name = self.system.levels[units.depth - 1].name
            where = f"all edges between the {name}s, a byte once for every hop,"
            yield self._bound(amount / (capacity * self.protocol.efficiency), amount, capacity, where)

    def families(self, units: LevelCapacities, levels: list[LevelCapacities]) -> Iterator[Bound]:
        """The cuts into the units inside one unit and, as one more part, all that is outside it."""
        if units.depth == 1:
            return
        outside, level = levels[units.depth - 2], self.system.levels[units.depth - 1]
        for parent in self._worth_looking_at(outside):
            inside = np.flatnonzero(units.parents == parent)
            amounts = self._traffic(_family(units, parent, inside), units.depth)
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

    def _worth_looking_at(self, units: LevelCapacities) -> list[int]:
        """All units; of a uniform system, whose units are alike but for the root and the ends, one of each kind."""
        n = self.collective.num_ranks
        if not self.system.is_uniform or self.groups.size < self.system.num_ranks:
            return list(range(len(units.paths)))
        if len(self.groups) > 1:
            regular = regular_factors(self.system, np.sort(self.groups, axis=1)) is not None
            num = len(units.paths)
            return sorted({0, num // 2, num - 1}) if regular else list(range(num))
        ranks = [0, n // 2, n - 1, self.collective.root, self.collective.peer]
        return sorted({int(units.unit_of_rank[self.groups[0, rank]]) for rank in ranks})

    def _traffic(self, part_of_rank: Numbers, depth: int) -> CutTraffic:
        """What passes between parts; fabrics inside the parts, deeper than ``depth``, have no say in it."""
        between = [level.fabric for level in self.system.levels[:depth]]
        reduces = any(fabric.reduces for fabric in between)
        multicasts = any(fabric.multicasts for fabric in between)
        num_parts = int(part_of_rank.max()) + 1
        enters, leaves, received, sent = np.zeros(num_parts), np.zeros(num_parts), 0.0, 0.0
        for parts, there in _alike(self._parts_of_groups(part_of_rank)):
            own = cut_traffic(self.collective, self.num_bytes, parts, reduces=reduces, multicasts=multicasts)
            every = there.reshape(-1)
            enters += np.bincount(every, np.tile(own.enters, len(there)), minlength=num_parts)
            leaves += np.bincount(every, np.tile(own.leaves, len(there)), minlength=num_parts)
            received, sent = received + len(there) * own.received, sent + len(there) * own.sent
        return CutTraffic(enters, leaves, received, sent)

    def _parts_of_groups(self, part_of_rank: Numbers) -> Numbers:
        """The part of every rank of every group, a row for each group; in order where only numbers of ranks count."""
        rows = part_of_rank[self.groups]
        return np.sort(rows, axis=1) if self.collective.kind in ANY_ORDER else rows

    def _in_network(self, depth: int) -> bool:
        return any(level.fabric.reduces or level.fabric.multicasts for level in self.system.levels[:depth])

    def _together(
        self, amounts: CutTraffic, into: float, out: float, latency: float, where: str
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


def _alike(rows: Numbers) -> Iterator[tuple[Parts, Numbers]]:
    """Rows that are cut into parts in the same way, and the parts that each of them has, in their order."""
    if (np.diff(rows, axis=1) >= 0).all():
        begins = np.append(np.ones((len(rows), 1), bool), rows[:, 1:] != rows[:, :-1], axis=1)
        patterns, which = np.unique(begins, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            mine = rows[which.reshape(-1) == number]
            yield Parts.of(np.cumsum(pattern) - 1), mine[:, pattern]
        return
    for row in rows:
        there, inverse = np.unique(row, return_inverse=True)
        yield Parts.of(inverse), there.reshape(1, -1)


def _family(units: LevelCapacities, parent: int, inside: Numbers) -> Numbers:
    """The ranks of a unit by the units inside it, and all other ranks as the last part, where there are any."""
    part_of_unit = np.full(len(units.paths), len(inside))
    part_of_unit[inside] = np.arange(len(inside))
    return part_of_unit[units.unit_of_rank]


def _bytes(amount: float) -> str:
    """An amount for people, however large."""
    return format_bytes(round(amount)) if amount <= LARGEST else "more than 8EiB"


def _dependent_pairs(c: Collective) -> tuple[Numbers, Numbers] | None:
    """Ranks whose input others' results depend on, and these; None where everybody depends on everybody."""
    ranks = np.arange(c.num_ranks)
    root = np.full_like(ranks, c.root)
    match c.kind:
        case CollectiveKind.BROADCAST | CollectiveKind.SCATTER:
            return root, ranks
        case CollectiveKind.REDUCE | CollectiveKind.GATHER:
            return ranks, root
        case CollectiveKind.ALLTONEXT:
            return ranks[:-1], ranks[1:]
        case CollectiveKind.SENDRECV:
            return np.array([c.root]), np.array([c.peer])
        case CollectiveKind.CUSTOM:
            pairs = {(origin, rank) for (rank, _, _), found in c.meaning().promises() for origin, _ in found}
            table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
            return table[:, 0], table[:, 1]
        case _:
            return None
