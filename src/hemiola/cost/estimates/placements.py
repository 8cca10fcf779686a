"""request_costs: how long a request takes under many placements at once, in closed form, all its groups running together.

A group over some axes has, at every level, the product of their entries as its factor g; with P members inside a unit of that level and k
in all. S are the bytes of the request (`collectives.kinds`). All devices take part, each in one group, so the units of a level are alike, and
links.py and mesh_costs.py say what a byte sent by every device costs. The algorithms, of which the fastest is taken:

| collective | by level | flat |
|---|---|---|
| reducescatter, allgather | (g - 1) / g S / P at every level | a ring of (k - 1) / k S |
| allreduce | both, one after the other | both |
| alltoall | (g - 1) / g S at every level, one after another | each member sends S / k straight to each other |
| broadcast | a tree across the units of every level, outermost first | a chain of S |
| alltonext | | S to the next member |

Levels overlap as the tiles of a plan do: with t tiles a request takes the busiest link's time and 1/t of what the levels would take longer one after
another. A ring at a level takes g - 1 messages one after another, halving log2(g), all pairs one and a little
for every further message; the fastest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hemiola.collectives import CollectiveKind
from hemiola.cost.estimates.link_costs import Amounts, LinkCosts, Numbers
from hemiola.cost.estimates.link_sharing import groups_on_busiest_link
from hemiola.cost.estimates.mesh_costs import mesh_costs
from hemiola.errors import CollectiveError

TILE_BYTES = 256 << 10
"""The largest message of the runtime."""


@dataclass(frozen=True)
class Costs:
    """The seconds of a request under each of many placements."""

    seconds: Amounts
    bound_seconds: Amounts
    """No algorithm is faster under that placement."""
    algorithm: Numbers
    """The number of the fastest of ``names``."""
    names: tuple[str, ...]


def request_costs(
    kind: CollectiveKind, num_bytes: float, over: Sequence[int], matrices: Numbers, links: LinkCosts
) -> Costs:
    """What a collective of ``num_bytes`` over some axes costs once; ``matrices`` are placements by axes by levels."""
    groups = _Groups(matrices, tuple(over), links)
    amount = float(num_bytes)
    found: Mapping[str, Amounts]
    match kind:
        case CollectiveKind.ALLGATHER:
            found = groups.by_level_or_ring(amount, adds=0, copies=1)
        case CollectiveKind.REDUCESCATTER:
            found = groups.by_level_or_ring(amount, adds=1, copies=0)
        case CollectiveKind.ALLREDUCE:
            found = groups.by_level_or_ring(amount, adds=1, copies=1)
        case CollectiveKind.ALLTOALL:
            found = groups.all_to_all(amount)
        case CollectiveKind.BROADCAST:
            found = groups.broadcast(amount)
        case CollectiveKind.ALLTONEXT:
            found = {"direct": groups.to_next(amount)}
        case _:
            raise CollectiveError(f"there is no estimate of a {kind} under placements")
    table = np.where(groups.size > 1, np.stack(list(found.values())), 0.0)
    bound = np.minimum(groups.bound(kind, amount), table.min(axis=0))
    return Costs(table.min(axis=0), bound, table.argmin(axis=0), tuple(found))


@dataclass(frozen=True)
class _Groups:
    """The groups over some axes under many placements; arrays are placements by levels."""

    matrices: Numbers
    over: tuple[int, ...]
    links: LinkCosts

    @cached_property
    def factors(self) -> Amounts:
        return np.asarray(self.matrices[:, list(self.over), :].prod(axis=1), np.float64)

    @cached_property
    def inside(self) -> Amounts:
        """Members of a group inside a unit that has some."""
        outwards = self.factors[:, ::-1].cumprod(axis=1)[:, ::-1]
        return outwards / self.factors

    @cached_property
    def size(self) -> Amounts:
        return np.asarray(self.factors.prod(axis=1))

    @cached_property
    def meshes(self) -> tuple[Amounts, Amounts, Amounts, Amounts]:
        """Seconds a byte of a ring, a chain and all pairs in the meshes of each level, and the latency; 0 without meshes."""
        ring, chain, pairs, latency = (np.zeros_like(self.factors) for _ in range(4))
        for level in np.flatnonzero(self.links.is_mesh):
            found = mesh_costs(self.links, self.matrices, self.over, int(level))
            ring[:, level], chain[:, level], pairs[:, level], latency[:, level] = found
        return ring, chain, pairs, latency

    @cached_property
    def on_busiest(self) -> Amounts:
        """Groups that leave a unit through its busiest link, each at one device."""
        return groups_on_busiest_link(self.links, self.matrices, self.over, self.inside)

    @cached_property
    def message_seconds(self) -> Amounts:
        return self.links.message_seconds + self.meshes[3]

    @cached_property
    def waiting(self) -> Amounts:
        """Seconds of the messages of one exchange at each level that follow each other, beside their bytes."""
        g, each = self.factors, self.message_seconds
        logs = np.log2(g)
        halves = (np.rint(logs) == logs) & ~self.links.is_mesh
        ring, halving = (g - 1) * each, np.where(halves, logs * each, np.inf)
        pairs = each + (g - 2) * self.links.step_seconds
        return np.where(g > 1, np.minimum(np.minimum(ring, halving), pairs), 0.0)

    @cached_property
    def farthest(self) -> Amounts:
        """What a message costs between the two members that are farthest apart."""
        spans = self.factors > 1
        return np.asarray(np.where(spans, self.message_seconds, 0.0).max(axis=1))

    def by_level_or_ring(self, data: float, adds: int, copies: int) -> Mapping[str, Amounts]:
        """Reduce-scatter (adds), all-gather (copies) or both."""
        passes = adds + copies
        share = (self.factors - 1) / self.factors / self.inside * data
        each = self._phases(share)
        work = self._work(share[:, :, np.newaxis], adds, copies)
        loads = np.concatenate([passes * each, work], axis=2)
        together, apart = loads.sum(axis=1).max(axis=1), loads.max(axis=2).sum(axis=1)
        tiles = np.maximum(1.0, data / self._innermost / TILE_BYTES)
        levels = together + (apart - together) / tiles + passes * self.waiting.sum(axis=1)
        return {"by level": levels, "flat ring": self._ring(data, adds, copies)}

    def all_to_all(self, amount: float) -> Mapping[str, Amounts]:
        leaving = 1 - self.inside / self.size[:, np.newaxis]
        direct = (self.links.of_shares(leaving) * amount).max(axis=1)
        # Between two units of a mesh goes what their members send each other: of (g - 1) / g, the part that stays in the mesh.
        meeting = (self.factors - 1) * self.inside / self.size[:, np.newaxis]
        direct = np.maximum(direct, (self.meshes[2] * meeting * amount).max(axis=1))
        work = leaving[:, -1] * amount / self.links.copy_bandwidth
        messages = self.farthest + np.maximum(self.size - 2, 0) * self.links.step_seconds
        share = (self.factors - 1) / self.factors * amount
        phases = np.concatenate([self._phases(share), self._work(share[:, :, np.newaxis], 0, 1)], axis=2)
        exchanges = self.message_seconds + np.maximum(self.factors - 2, 0) * self.links.step_seconds
        by_level = phases.max(axis=2).sum(axis=1) + np.where(self.factors > 1, exchanges, 0.0).sum(axis=1)
        return {"direct": np.maximum(direct, work) + messages, "by level": by_level}

    def broadcast(self, amount: float) -> Mapping[str, Amounts]:
        chain = self._chain_loads().max(axis=1) * amount
        chain = chain + (self.size - 1) * (self.farthest + self._tile_seconds(amount))
        # One member of a group for each unit around sends, to twice as many every time.
        rounds = np.ceil(np.log2(self.factors) - 1e-9)
        each = np.zeros_like(self.factors)
        for level in range(self.factors.shape[1]):
            leaving = np.zeros_like(self.factors)
            leaving[:, level:] = 1 / self.inside[:, level : level + 1]
            costs = np.concatenate(
                [self.links.of_messages(self.on_busiest, leaving), self._mesh_at(level)], axis=1
            )
            each[:, level] = costs.max(axis=1) * amount
        tree = (rounds * (each + self.message_seconds)).sum(axis=1)
        return {"chain": chain, "tree": tree}

    def to_next(self, amount: float) -> Amounts:
        seconds: Amounts = self._chain_loads().max(axis=1) * amount + self.farthest
        return seconds

    def bound(self, kind: CollectiveKind, amount: float) -> Amounts:
        """What must leave the units of each level, over all their links, or the latency of one message."""
        parts = self.size[:, np.newaxis] / self.inside
        groups = self.links.inside / self.inside
        reduces = any(level.fabric.reduces for level in self.links.system.levels)
        share = (parts - 1) / parts
        whole_data = np.where(parts > 1, 1.0, 0.0)
        crossing = {
            CollectiveKind.ALLREDUCE: whole_data if reduces else 2 * share,
            CollectiveKind.REDUCESCATTER: share,
            # What the members of a unit need from outside it.
            CollectiveKind.ALLGATHER: share,
            CollectiveKind.ALLTOALL: share * self.inside,
            CollectiveKind.BROADCAST: whole_data,
            CollectiveKind.ALLTONEXT: whole_data,
        }[kind]
        # What goes farther than its mesh does not cross it.
        farther = self.links.is_mesh & (self.inside * self.factors < self.size[:, np.newaxis])
        whole = np.where(farther, 0.0, crossing * amount * groups)
        seconds = np.divide(whole, self.links.unit_bandwidth, out=np.zeros_like(whole), where=whole > 0)
        return np.asarray(np.maximum(seconds.max(axis=1), self.farthest))

    @property
    def _innermost(self) -> Amounts:
        """The factor of the innermost level that a group is split over."""
        spans = self.factors > 1
        last = spans.shape[1] - 1 - spans[:, ::-1].argmax(axis=1)
        return np.asarray(self.factors[np.arange(len(last)), last])

    def _phases(self, sent: Amounts) -> Amounts:
        """Seconds by level and by link, fabric or mesh when each device sends so much at each level to others of equal place."""
        constant = self.links.of_phases()
        fastest = np.minimum(self.meshes[0], self.meshes[2])
        edges = fastest[:, :, np.newaxis] * np.eye(sent.shape[1])
        costs = np.concatenate([np.broadcast_to(constant, (len(sent), *constant.shape)), edges], axis=2)
        return costs * sent[:, :, np.newaxis]

    def _work(self, sent: Amounts, adds: int, copies: int) -> Amounts:
        rates = np.array([adds / self.links.add_bandwidth, copies / self.links.copy_bandwidth])
        return np.asarray(sent * rates)

    def _chain_loads(self, closed: bool = False) -> Amounts:
        """Seconds a byte by link, fabric or mesh when each member sends to the next, and the last to the first if closed."""
        leaving = np.where(self.inside < self.size[:, np.newaxis], 1 / self.inside, 0.0)
        ring, chain, _, _ = self.meshes
        # Who comes back to the first member from outside its mesh crosses no edge.
        ends_here = closed & (self.inside * self.factors == self.size[:, np.newaxis])
        edges = np.where(ends_here, ring, chain) / self.inside
        return np.concatenate([self.links.of_messages(self.on_busiest, leaving), edges], axis=1)

    def _mesh_at(self, level: int) -> Amounts:
        return (self.meshes[1] / self.inside)[:, level : level + 1]

    def _ring(self, data: float, adds: int, copies: int) -> Amounts:
        sent = (self.size - 1) / self.size * data
        work = self._work(sent[:, np.newaxis], adds, copies)
        flowing = np.maximum(
            (adds + copies) * self._chain_loads(closed=True).max(axis=1) * sent, work.max(axis=1)
        )
        seconds: Amounts = flowing + (adds + copies) * (self.size - 1) * self.farthest
        return seconds

    def _tile_seconds(self, amount: float) -> Amounts:
        """How long a tile takes from a member to the next."""
        seconds: Amounts = self._chain_loads().max(axis=1) * min(amount, TILE_BYTES)
        return seconds
