"""replay_seconds: how long a plan takes for a request, all its groups at once: the one time that every verb prints of a plan.

Tiles follow each other through a plan, and after the first few at equal distances. Of more than twice `SOME_TILES` tiles, the
first ones are replayed, twice as many until their pace is steady, and the others follow at that pace, or at that of the
busiest link or device where that is slower. tests/cost/test_replay_seconds.py
says how far that is from a replay to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hemiola.cost.estimates.wire_time import busiest_link, work_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.ir.plan import Plan
from hemiola.simulator.replay import FOLDED, ReplayOptions, protocol_of, simulate_together
from hemiola.simulator.runtimes.by_name import runtime_of
from hemiola.simulator.runtimes.runtime_model import LoweredPlan, RuntimeModel, Tiles
from hemiola.simulator.timeline import Load, Timeline
from hemiola.topology.network import network_of

SOME_TILES = 64
"""Up to twice as many, all are replayed."""
STEADY = 0.002
"""Paces that differ by less are equal."""
SEARCHED_TILES = 24
"""For searches, which compare many plans and replay only the best ones as they are printed."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a plan runs for a request."""

    seconds: float
    """Until the last group is done."""
    timeline: Timeline
    """Of the tiles that were replayed."""
    num_tiles: int
    """Of the whole data."""

    @property
    def num_replayed_tiles(self) -> int:
        """The others follow at the pace of the last of these."""
        return len(self.timeline.chunk_bytes[0])


def replay(
    plan: Plan,
    num_bytes: float,
    request: CollectiveRequest,
    runtime: RuntimeModel | None = None,
    options: ReplayOptions = FOLDED,
) -> Replayed:
    """How a plan runs, by replay; by default with the system's runtime."""
    one = _Replay(plan, num_bytes, request, runtime or runtime_of(request.system))
    number = SOME_TILES
    while number < len(one.tiles) // 2 and not one.is_steady(number):
        number *= 2
    return one.replayed(number, options)


def replay_seconds(
    plan: Plan, num_bytes: float, request: CollectiveRequest, runtime: RuntimeModel | None = None
) -> float:
    """Seconds until the last group is done."""
    return replay(plan, num_bytes, request, runtime).seconds


def searched_seconds(
    plan: Plan, num_bytes: float, request: CollectiveRequest, runtime: RuntimeModel | None = None
) -> float:
    """Nearly the same from fewer tiles, for searches alone."""
    one = _Replay(plan, num_bytes, request, runtime or runtime_of(request.system))
    return one.replayed(SEARCHED_TILES, FOLDED).seconds


@dataclass(frozen=True)
class _Replay:
    plan: Plan
    num_bytes: float
    request: CollectiveRequest
    runtime: RuntimeModel
    _known: dict[int, Timeline] = field(default_factory=dict)

    @cached_property
    def tiles(self) -> Tiles:
        """Of the group with most of them: groups that lie on hosts in other ways may be cut in other ways."""
        cores = self.request.system.compute.host_cores
        every = [
            self.runtime.tiles(self.plan, self.num_bytes, hosts, cores)
            for hosts in self.request.host_patterns
        ]
        return max(every, key=len)

    def is_steady(self, number: int) -> bool:
        """Whether the last two quarters of the first tiles took equally long for a byte."""
        third, fourth = self._pace(number // 2, number * 3 // 4), self._pace(number * 3 // 4, number)
        return abs(third - fourth) <= STEADY * fourth

    def replayed(self, number: int, options: ReplayOptions) -> Replayed:
        """All tiles, or the first ``number`` of them where there are more than twice as many, and the others at their pace."""
        if len(self.tiles) <= 2 * number:
            timeline = self._first(len(self.tiles), options)
            return Replayed(timeline.seconds, timeline, len(self.tiles))
        timeline = self._first(number, options)
        # While slots fill up, tiles may follow each other faster than the busiest link or device lets them in the long run.
        least = busy_seconds(self.plan, self.num_bytes, self.request) / float(self.tiles.sum())
        pace = max(self._pace(number // 2, number), least)
        return Replayed(timeline.seconds + pace * float(self.tiles[number:].sum()), timeline, len(self.tiles))

    def _pace(self, first: int, last: int) -> float:
        """Seconds for every byte of a chunk between two tiles."""
        seconds = self._first(last, FOLDED).seconds - self._first(first, FOLDED).seconds
        return seconds / float(self.tiles[first:last].sum())

    def _first(self, number: int, options: ReplayOptions) -> Timeline:
        if options == FOLDED and number in self._known:
            return self._known[number]
        loads = [Load(self.plan, self.num_bytes, group) for group in self.request.groups]
        found = simulate_together(
            loads,
            self.request.system,
            runtime=_FirstTiles(self.runtime, number, len(self.tiles)),
            options=options,
        )
        self._known[number] = found
        return found


def busy_seconds(plan: Plan, num_bytes: float, request: CollectiveRequest) -> float:
    """What the busiest link, device or host needs for its bytes alone."""
    network = network_of(request.system, protocol_of(plan, request.system))
    links, _ = busiest_link(plan, num_bytes, network, request.table)
    return max(links, work_seconds(plan, num_bytes, request.system, request.table))


@dataclass(frozen=True, slots=True)
class _FirstTiles:
    """A runtime of whose tiles only the first are looked at: so many of so many, or as large a part of fewer."""

    runtime: RuntimeModel
    number: int
    total: int

    def tiles(self, plan: Plan, num_bytes: float, hosts: Sequence[int], cores_per_host: int | None) -> Tiles:
        tiles = self.runtime.tiles(plan, num_bytes, hosts, cores_per_host)
        return tiles[: -(-len(tiles) * self.number // self.total)] if self.total else tiles

    @property
    def element_bytes(self) -> int:
        return self.runtime.element_bytes

    @property
    def message_choices(self) -> tuple[int, ...]:
        return self.runtime.message_choices

    @property
    def most_threadblocks(self) -> int | None:
        return self.runtime.most_threadblocks

    def num_slots(self, plans: Iterable[Plan]) -> int:
        return self.runtime.num_slots(plans)

    def lower(self, plan: Plan, num_bytes: float) -> LoweredPlan:
        return self.runtime.lower(plan, num_bytes)

    @property
    def direct_sends(self) -> bool:
        return self.runtime.direct_sends

    @property
    def interprets(self) -> bool:
        return self.runtime.interprets
