"""Tables are made for factors of two: which of their programs hold for other factors."""

import random
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.errors import ReductionError
from hemiola.synthesis.chunk_ownership import holds_for
from hemiola.synthesis.estimate import estimate_programs
from hemiola.synthesis.lower import compile_reduction
from hemiola.synthesis.program import ReductionProgram, parse_program
from hemiola.synthesis.state import REDUCTIONS
from hemiola.synthesis.table import table_of
from hemiola.topology.system import Level, Link, System
from hemiola.tuning.candidate_space import CandidateSpace
from synthesis.dense_reference import achieves

EQUAL_FACTORS_ONLY = "reducescatter(2, InsideGroup); reducescatter(2, Parallel(1)); allreduce(1, Parallel(0)); allgather(2, InsideGroup)"
few_factors = st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple).filter(lambda f: prod(f) <= 40)


def random_program(depth: int, request: CollectiveKind, seed: int) -> ReductionProgram:
    """A walk through the table, from its start to a goal."""
    table, chance = table_of(depth, request), random.Random(seed)
    first, state, path = table.first_edges(), 0, []
    while state < table.first_goal:
        path.append(chance.randrange(int(first[state]), int(first[state + 1])))
        state = int(table.edges["target"][path[-1]])
    return table.program(tuple(path))


def machine(factors: tuple[int, ...], bandwidths: list[float]) -> System:
    levels = [
        Level(f"level{number}", count, Link(bandwidth, bandwidth, 1e-6))
        for number, (count, bandwidth) in enumerate(zip(factors, bandwidths, strict=False))
    ]
    return System("random", tuple(levels))


def test_a_program_for_equal_factors_is_refused_for_others() -> None:
    program, scatter = parse_program(EQUAL_FACTORS_ONLY, 3), CollectiveKind.REDUCESCATTER
    assert holds_for(program, (2, 2, 2), scatter)
    assert not holds_for(program, (4, 2, 2), scatter)
    with pytest.raises(
        ReductionError, match=r"is no reducescatter over factors .* device 2 ends without chunk 2"
    ):
        compile_reduction(program, (4, 2, 2), request=scatter)


@given(factors=few_factors, request_=st.sampled_from(REDUCTIONS), seed=st.integers(0, 1 << 30))
@settings(max_examples=300, deadline=None)
def test_chunks_decide_as_matrices_do(factors: tuple[int, ...], request_: CollectiveKind, seed: int) -> None:
    program = random_program(len(factors), request_, seed)
    assert holds_for(program, factors, request_) == achieves(program, factors, request_), str(program)


@st.composite
def placed_requests(draw: st.DrawFn) -> CollectiveRequest:
    """A random machine, and groups that take a part of the units of every level."""
    inside = draw(st.lists(st.integers(1, 4), min_size=3, max_size=3).filter(lambda f: 2 <= prod(f) <= 32))
    outside = draw(st.lists(st.integers(1, 2), min_size=3, max_size=3))
    bandwidths = draw(st.lists(st.sampled_from([1e9, 1e10, 1e11]), min_size=3, max_size=3))
    counts = tuple(one * other for one, other in zip(inside, outside, strict=True))
    devices = np.arange(prod(counts)).reshape(
        [side for pair in zip(outside, inside, strict=True) for side in pair]
    )
    groups = devices.transpose(0, 2, 4, 1, 3, 5).reshape(prod(outside), prod(inside))
    return CollectiveRequest.of_groups(draw(st.sampled_from(REDUCTIONS)), machine(counts, bandwidths), groups)


@given(request_=placed_requests(), in_place=st.booleans())
@settings(max_examples=60, deadline=None)
def test_programs_for_a_placement_are_proven(request_: CollectiveRequest, in_place: bool) -> None:
    space = CandidateSpace(request_)
    assert space.programs
    for one in space.programs:
        for candidate in space.ways_of(one.program):
            space.proven_plan(candidate, in_place=in_place)


def test_as_many_programs_as_asked_for_are_left() -> None:
    """Over (16, 2, 2) the two programs with the best estimates do not hold; others take their place."""
    system = machine((16, 2, 2), [1e10, 3e10, 3e11])
    request = CollectiveRequest.of_system(CollectiveKind.REDUCESCATTER, system)
    found = estimate_programs(request, 64 << 20, 5)
    assert len(found) == 5
    assert all(achieves(one.program, (16, 2, 2), CollectiveKind.REDUCESCATTER) for one in found)
