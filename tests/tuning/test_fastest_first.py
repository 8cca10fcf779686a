"""A search gives its plans back fastest first, and a window of the library holds up to its last byte."""

from __future__ import annotations

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.tuning import plan_search
from hemiola.tuning.candidate_space import CandidateSpace
from hemiola.tuning.library_plans import LibraryPlans
from hemiola.tuning.plan_search import NUM_REPLAYED, PlanSearch
from plain_systems import plain_system as load_system


def test_replays_to_the_end_decide_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    request = CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, load_system("dgx-a100:2"))
    search = PlanSearch(CandidateSpace(request))
    ring = [one for one in search.space.candidates if one.algorithm == "allreduce_ring"]
    explored = search.explore(4096, ring)[:NUM_REPLAYED]
    # To the end, what the search had first takes longest.
    times = iter(range(NUM_REPLAYED, 0, -1))
    monkeypatch.setattr(plan_search, "replay_seconds", lambda *arguments: float(next(times)))
    found = search.best(4096, ring)
    assert [one.seconds for one in found] == [1.0, 2.0, 3.0]
    assert [one.candidate for one in found] == explored[::-1]


@pytest.mark.parametrize(
    ("kind", "last", "inside", "beyond"),
    [
        # Four ranks on one host: 64 KiB of all ranks together, and 256 KiB.
        (CollectiveKind.ALLREDUCE, 16 << 10, "allreduce_one_step", "allreduce_allpairs"),
        (CollectiveKind.ALLREDUCE, 256 << 10, "allreduce_allpairs", "allreduce_ring"),
        (CollectiveKind.BROADCAST, 1 << 20, "broadcast_tree", "broadcast_chain"),
    ],
)
def test_a_window_ends_with_its_last_byte(kind: CollectiveKind, last: int, inside: str, beyond: str) -> None:
    library = LibraryPlans()
    names = [
        library.choose(PlanRequest(kind, 4, (0,) * 4, size, False)).plan.name for size in (last, last + 4)
    ]
    assert names == [inside, beyond]
