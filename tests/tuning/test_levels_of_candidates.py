"""Hierarchical algorithms are tried over hosts and their devices, over all levels of a system, and over the outermost against all others together."""

from __future__ import annotations

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.topology.system import Level, Link, System
from hemiola.tuning.candidate_space import CandidateSpace

THREE = System(
    "three levels",
    (
        Level("rack", 2, Link(1e9, 1e9, 5e-6)),
        Level("host", 3, Link(10e9, 10e9, 2e-6)),
        Level("gpu", 4, Link(100e9, 100e9, 1e-6)),
    ),
)


def test_hosts_all_levels_and_the_outermost_against_the_others() -> None:
    space = CandidateSpace(CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, THREE))
    levels = {dict(one.parameters).get("levels") for one in space.candidates} - {None}
    assert levels == {(6, 4), (2, 3, 4), (2, 12)}
