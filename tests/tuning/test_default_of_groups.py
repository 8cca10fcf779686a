"""Without tuning, every group of a request takes the plan that its own place on the hosts asks for."""

from __future__ import annotations

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.simulator.replay import simulate_together
from hemiola.simulator.timeline import Load
from hemiola.topology.system import Level, Link, System
from hemiola.tuning.candidate_space import CandidateSpace
from hemiola.tuning.library_plans import LibraryPlans
from hemiola.tuning.plan_search import PlanSearch

ALLGATHER = CollectiveKind.ALLGATHER
SYSTEM = System(
    "two hosts", (Level("host", 2, Link(1e9, 1e9, 5e-6)), Level("gpu", 4, Link(1e11, 1e11, 1e-6)))
)
GROUPS = ((0, 1, 2), (3, 4, 5))
"""One on a host, the other on both."""


def test_groups_that_lie_differently_have_plans_of_their_own() -> None:
    request = CollectiveRequest(ALLGATHER, SYSTEM, GROUPS)
    library, num_bytes = LibraryPlans(), 3 << 20
    loads = []
    for group, hosts in zip(GROUPS, request.host_patterns, strict=True):
        asked = PlanRequest(ALLGATHER, 3, hosts, num_bytes, request.in_place)
        loads.append(Load(library.choose(asked).plan, num_bytes, group))
    assert loads[0].plan.name != loads[1].plan.name
    found = PlanSearch(CandidateSpace(request)).default(num_bytes)
    assert found.seconds == simulate_together(loads, SYSTEM).seconds
    alike = [Load(loads[0].plan, num_bytes, group) for group in GROUPS]
    assert found.seconds != simulate_together(alike, SYSTEM).seconds
