"""PlanSearch: the fastest plans for a request at a size, among all candidates, by replay.

Every candidate of one instance is timed, unless the bytes on its busiest link alone take longer than the best plan so far. The
best few are then changed as long as that makes them faster: twice or half as many instances, another protocol, another
size of messages. Searches continue plans of many tiles in a straight line; the first few are replayed to the end, and
these times decide and are what every verb prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hemiola.cost.bounds.lower_bound import Bound, lower_bound
from hemiola.cost.estimates.wire_time import busiest_link
from hemiola.cost.replay_seconds import replay_seconds, searched_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.vendor.nccl_model import VendorAlgorithm
from hemiola.cost.vendor.vendor_plan import vendor_plan
from hemiola.cost.vendor.vendor_seconds import has_vendor, vendor_time
from hemiola.errors import LimitError
from hemiola.ir.plan import Plan
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.simulator.replay import simulate_together
from hemiola.simulator.runtimes.by_name import runtime_of
from hemiola.simulator.runtimes.runtime_model import RuntimeModel
from hemiola.simulator.timeline import Load
from hemiola.topology.network import Network, network_of
from hemiola.topology.system import ProtocolCosts, System
from hemiola.tuning.candidate import Candidate
from hemiola.tuning.candidate_space import MOST_INSTANCES, CandidateSpace
from hemiola.tuning.library_plans import LibraryPlans

NUM_LEADERS = 3
"""Candidates of each way to carry a collective out that are changed; each of another family."""
HOPEFUL = 2.0
"""Candidates that take more than so many times as long as the fastest are not changed."""
NUM_REPLAYED = 3
"""Plans that are replayed to the end."""
LEAST_GAIN = 0.002
"""A change is followed where it takes this much less time."""


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """A plan and its replayed time at a size; without a candidate it is what the runtime takes by itself."""

    candidate: Candidate | None
    plan: Plan
    seconds: float
    label: str = ""
    """What it is called, where that is not the name of the plan."""

    @property
    def name(self) -> str:
        """For people."""
        return self.label or (self.plan.name if self.candidate is None else str(self.candidate))


@dataclass(frozen=True)
class PlanSearch:
    """The candidates of a request, and what is known of their times."""

    space: CandidateSpace
    model: RuntimeModel | None = None
    """None: the runtime of the system."""
    _times: dict[tuple[object, ...], float] = field(default_factory=dict, repr=False)
    _wires: dict[tuple[object, ...], float] = field(default_factory=dict, repr=False)

    @property
    def runtime(self) -> RuntimeModel:
        """That runs the plans."""
        return self.model or runtime_of(self.request.system)

    @property
    def request(self) -> CollectiveRequest:
        """What is asked for."""
        return self.space.request

    def best(self, num_bytes: int, among: Iterable[Candidate] | None = None) -> list[TimedPlan]:
        """The fastest plans at a size, the first of them replayed to the end; among all candidates, or among some."""
        found = self.explore(num_bytes, self.space.candidates if among is None else among)
        replayed = [self.replayed(candidate, num_bytes) for candidate in found[:NUM_REPLAYED]]
        return sorted(replayed, key=lambda one: one.seconds)

    def explore(self, num_bytes: int, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Candidates and changed candidates, the fastest first, by the time of a search."""
        times: dict[Candidate, float] = {}
        for candidate in self._promising_first(candidates, num_bytes):
            best = min(times.values(), default=float("inf"))
            for one in (candidate.with_(protocol=protocol) for protocol in self.space.protocols):
                if self.floor(one, num_bytes) < best:
                    times[one] = self.seconds(one, num_bytes)
        for leader in self._leaders(times):
            times |= self._climb(leader, times, num_bytes)
        times |= self._as_the_fastest(times, num_bytes)
        return sorted(times, key=lambda one: (times[one], one.instances, str(one)))

    def replayed(self, candidate: Candidate, num_bytes: int) -> TimedPlan:
        """A candidate replayed to the end."""
        plan = self.space.plan(candidate)
        try:
            return TimedPlan(candidate, plan, replay_seconds(plan, num_bytes, self.request, self.runtime))
        except LimitError:  # a message of so many chunks fits in no slot
            return TimedPlan(candidate, plan, float("inf"))

    def default(self, num_bytes: int) -> TimedPlan:
        """What the runtime takes by itself; where the runtime is a vendor's, the vendor's own algorithm."""
        request, of_hosts = self.request, {}
        if has_vendor(request):
            vendor = vendor_time(request, num_bytes)
            plan = vendor.plan or vendor_plan(replace(vendor.choice, algorithm=VendorAlgorithm.RING), request)
            assert plan is not None
            return TimedPlan(None, plan, vendor.seconds, str(vendor.choice))
        for hosts in request.host_patterns:
            asked = PlanRequest(
                request.kind, request.num_ranks, hosts, num_bytes, request.in_place, request.root, request.peer
            )  # fmt: skip
            of_hosts[hosts] = LIBRARY.choose(asked).plan
        plan = of_hosts[request.host_patterns[0]]
        if len({id(one) for one in of_hosts.values()}) == 1:
            return TimedPlan(None, plan, replay_seconds(plan, num_bytes, request, self.runtime))
        # Every group is a communicator of its own, and chooses by where it lies.
        loads = [
            Load(of_hosts[pattern], num_bytes, group)
            for pattern in request.host_patterns
            for group in request.groups
            if replace(request, groups=(group,)).host_patterns[0] == pattern
        ]
        seconds = simulate_together(loads, request.system, runtime=self.runtime).seconds
        return TimedPlan(None, plan, seconds)

    def bound(self, num_bytes: int) -> Bound:
        """The time that no plan can beat."""
        return lower_bound(self.request.collective, num_bytes, self.request.system, groups=self.request.table)

    def seconds(self, candidate: Candidate, num_bytes: int) -> float:
        """The time of a search; infinite where messages fit in no slot, or a device has not so many threadblocks."""
        plan, request = self.space.plan(candidate), self.request
        if not fits_device(plan, request.system, self.runtime):
            return float("inf")
        cores = request.system.compute.host_cores
        try:
            every = [self.runtime.tiles(plan, num_bytes, hosts, cores) for hosts in request.host_patterns]
        except LimitError:
            return float("inf")
        # Small data is cut alike whatever the size of messages.
        cut = [(len(tiles), *tiles[:1], *tiles[-1:]) for tiles in every]
        key = (candidate.compiled_as, candidate.protocol, *cut)
        if key not in self._times:
            found = searched_seconds(plan, num_bytes, request, self.runtime)
            self._times[key] = max(found, self.floor(candidate, num_bytes))
        return self._times[key]

    def floor(self, candidate: Candidate, num_bytes: int) -> float:
        """What the busiest link needs for the bytes of a candidate alone: no replay is shorter."""
        if candidate.family not in self._wires:
            plan = self.space.plan(candidate.with_(instances=1))
            self._wires[candidate.family] = busiest_link(plan, 1.0, self._network, self.request.table)[0]
        numbers = self.request.system.protocols.get(candidate.protocol.value, ProtocolCosts())
        return self._wires[candidate.family] * num_bytes / numbers.efficiency

    @cached_property
    def _network(self) -> Network:
        return network_of(self.request.system, ProtocolCosts())

    def _promising_first(self, candidates: Iterable[Candidate], num_bytes: int) -> list[Candidate]:
        return sorted(candidates, key=lambda one: self.floor(one, num_bytes))

    def _leaders(self, times: dict[Candidate, float]) -> list[Candidate]:
        """The fastest of each of the best families of every way, with every protocol: other messages change their order."""
        ranked = sorted(times, key=lambda one: (times[one], str(one)))
        ranked = [one for one in ranked if times[one] <= HOPEFUL * times[ranked[0]]]
        families: dict[object, list[tuple[object, ...]]] = {}
        found: dict[tuple[object, ...], Candidate] = {}
        for candidate in ranked:
            of_way = families.setdefault(candidate.way, [])
            if candidate.family not in of_way and len(of_way) < NUM_LEADERS:
                of_way.append(candidate.family)
            if candidate.family in of_way:
                found.setdefault((candidate.family, candidate.protocol), candidate)
        return list(found.values())

    def _climb(
        self, leader: Candidate, known: dict[Candidate, float], num_bytes: int
    ) -> dict[Candidate, float]:
        """Changes of a candidate, each faster than the one before, and all that was tried on the way."""
        tried, best = {leader: known[leader]}, min(known.values())
        while True:
            for one in self._changed(leader):
                if one not in tried and self.floor(one, num_bytes) < best:
                    tried[one] = self.seconds(one, num_bytes)
            fastest = min(tried, key=lambda one: tried[one])
            if tried[fastest] >= tried[leader] * (1 - LEAST_GAIN):
                return tried
            leader = fastest

    def _as_the_fastest(self, times: dict[Candidate, float], num_bytes: int) -> dict[Candidate, float]:
        """All families once more, with the protocol, instances and messages of the fastest candidate."""
        fastest = min(times, key=lambda one: (times[one], str(one)), default=None)
        if fastest is None:
            return {}
        found = {}
        for family in dict.fromkeys(
            one.with_(instances=1, message_bytes=0, protocol=fastest.protocol) for one in times
        ):
            instances = fastest.instances if self.space.can_have_instances(family) else 1
            one = family.with_(instances=instances, message_bytes=fastest.message_bytes)
            if one not in times and self.space.is_small(one) and self.floor(one, num_bytes) < times[fastest]:
                found[one] = self.seconds(one, num_bytes)
        return found

    def _changed(self, candidate: Candidate) -> Iterator[Candidate]:
        if self.space.can_have_instances(candidate):
            for instances in (2 * candidate.instances, candidate.instances // 2):
                changed = candidate.with_(instances=instances)
                if 1 <= instances <= MOST_INSTANCES and self.space.is_small(changed):
                    yield changed
        for message in (0, *self.runtime.message_choices):
            if message != candidate.message_bytes:
                yield candidate.with_(message_bytes=message)


def fits_device(plan: Plan, system: System, runtime: RuntimeModel) -> bool:
    """Whether every device can run all threadblocks of a plan at once, as GPU runtimes do."""
    limits = [one for one in (system.compute.threadblocks, runtime.most_threadblocks) if one is not None]
    if not limits or runtime.most_threadblocks is None:
        return True
    most = int(np.bincount(plan.threadblocks["rank"].astype(np.int64)).max(initial=0))
    return most <= min(limits)


LIBRARY = LibraryPlans()
"""What the runtime takes by itself; compiled plans are kept between calls."""
