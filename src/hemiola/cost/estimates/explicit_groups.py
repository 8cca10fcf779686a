"""GroupCosts: how long a request takes over explicit groups of devices that run at once, estimated by the load of every link.

For groups that no parallelism matrix describes, and for systems whose units are not alike. Every link is looked at, so this is for systems of
up to some thousand devices. Groups that have the same number of members in every unit that they touch also go level by
level, as in placements.py; the others take rings, a chain or direct messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hemiola.collectives import CollectiveKind
from hemiola.cost.estimates.link_costs import Amounts, LinkCosts, Numbers
from hemiola.cost.estimates.placements import TILE_BYTES
from hemiola.cost.group_shape import regular_factors
from hemiola.topology.network import Network, network_of
from hemiola.topology.system import ProtocolCosts, System

MOST_DEVICES = 4096
MOST_RINGS = 16
"""That divide the data of one group."""


@dataclass(frozen=True)
class GroupCosts:
    """A system whose links are all looked at."""

    system: System

    @cached_property
    def links(self) -> LinkCosts:
        """What a message and an addition cost."""
        return LinkCosts.of(self.system)

    @cached_property
    def network(self) -> Network:
        """The links."""
        return network_of(self.system, ProtocolCosts(efficiency=self.links.efficiency))

    @cached_property
    def digits(self) -> Numbers:
        """The number of each device at each level."""
        return np.array(self.system.devices, np.int64)

    def seconds(self, kind: CollectiveKind, num_bytes: float, groups: Numbers) -> float:
        """The time of a collective over groups that run at the same time; a row for each group."""
        size = groups.shape[1]
        if size == 1:
            return 0.0
        amount = float(num_bytes)
        if kind is CollectiveKind.ALLTONEXT:
            return self._exchange(groups[:, :-1], groups[:, 1:], amount)
        ordered = np.sort(groups, axis=1)
        if kind is CollectiveKind.ALLTOALL:
            return self._all_pairs(ordered, amount / size)
        following = np.roll(ordered, -1, axis=1)
        if kind is CollectiveKind.BROADCAST:
            return self._exchange(ordered[:, :-1], following[:, :-1], amount)
        passes = 2 if kind is CollectiveKind.ALLREDUCE else 1
        ring = self._rings(ordered, amount * (size - 1) / size) + (size - 1) * self._latency(
            ordered, following
        )
        by_level = [
            self._by_level(ordered, factors, amount)
            for factors in [regular_factors(self.system, ordered)]
            if factors
        ]
        return float(passes * min([ring, *by_level]))

    def _rings(self, ordered: Numbers, share: float) -> float:
        """The time of one ring, or of several that divide the data and leave each unit from another member."""
        rings = list(self._turned(ordered))
        loads = [self._loads(ring, np.roll(ring, -1, axis=1), share) for ring in rings]
        return min(float(loads[0].max()), float(np.mean(loads, axis=0).max()))

    def _turned(self, ordered: Numbers) -> Iterator[Numbers]:
        """The members in order, and with those of each unit of the outermost level that groups span turned on."""
        size, digits = ordered.shape[1], self.digits[ordered]
        level = int((digits != digits[:, :1]).any(axis=(0, 1)).argmax())
        place = np.broadcast_to(np.arange(size), ordered.shape)
        begins = np.ones(ordered.shape, bool)
        begins[:, 1:] = (digits[:, 1:, : level + 1] != digits[:, :-1, : level + 1]).any(axis=2)
        first = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
        following = np.append(np.where(begins, place, size)[:, 1:], np.full((len(ordered), 1), size), axis=1)
        members = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1] - first
        for turn in range(min(int(members.max()), MOST_RINGS)):
            yield np.take_along_axis(ordered, first + (place - first + turn) % members, axis=1)

    def _loads(self, src: Numbers, dst: Numbers, amount: float) -> Amounts:
        """The seconds of each link when everybody in ``src`` sends so much to its place in ``dst``."""
        _, hops = self.network.routes(src.reshape(-1), dst.reshape(-1))
        loads: Amounts = np.bincount(hops, minlength=self.network.num_links) * (
            amount / self.network.capacities
        )
        return loads

    def _exchange(self, src: Numbers, dst: Numbers, amount: float) -> float:
        return float(self._loads(src, dst, amount).max()) + self._latency(src, dst)

    def _latency(self, src: Numbers, dst: Numbers) -> float:
        first, hops = self.network.routes(src.reshape(-1), dst.reshape(-1))
        sums: Amounts = np.add.reduceat(np.append(self.network.latencies[hops], 0.0), first[:-1])
        return float(sums.max()) + self.links.own_seconds

    def _all_pairs(self, groups: Numbers, amount: float) -> float:
        """Everybody sends so much to every other member, all at once."""
        size = groups.shape[1]
        loads = np.zeros(self.network.num_links)
        for distance in range(1, size):
            loads += self._loads(groups, np.roll(groups, -distance, axis=1), amount)
        waiting = self._latency(groups, groups[:, ::-1]) + (size - 2) * self.links.step_seconds
        return float(float(loads.max()) + waiting)

    def _by_level(self, ordered: Numbers, factors: Sequence[int], whole: float) -> float:
        """Exchanges at each level between members of equal place, overlapping as tiles do."""
        num_groups, inside = len(ordered), ordered.shape[1]
        loads, waiting, innermost = [], 0.0, 1
        for factor in factors:
            inside //= factor
            if factor == 1:
                continue
            table = ordered.reshape(num_groups, -1, factor, inside)
            src = np.moveaxis(table, 2, 3).reshape(-1, factor)
            dst = np.roll(src, -1, axis=1)
            loads.append(self._loads(src, dst, whole / inside * (factor - 1) / factor))
            waiting += self._latency(src, dst) + (factor - 2) * self.links.step_seconds
            innermost = factor
        together, apart = float(np.sum(loads, axis=0).max()), sum(float(load.max()) for load in loads)
        return together + (apart - together) / max(1.0, whole / innermost / TILE_BYTES) + waiting
