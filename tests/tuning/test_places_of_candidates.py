"""A candidate has a plan for calls in place and another for calls out of place, whichever is asked for first."""

from __future__ import annotations

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.topology.shapes import load_shape
from hemiola.tuning.candidate_space import CandidateSpace


@pytest.mark.parametrize("first", [False, True])
def test_plans_in_place_and_out_of_place_are_kept_apart(first: bool) -> None:
    space = CandidateSpace(CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, load_shape("2x4")))
    ring = next(one for one in space.candidates if one.algorithm == "allreduce_ring")
    for in_place in (first, not first, first):
        assert space.plan(ring, in_place=in_place).collective.in_place == in_place
        assert space.proven_plan(ring, in_place=in_place).collective.in_place == in_place
    assert space.plan(ring).collective.in_place == space.request.in_place
