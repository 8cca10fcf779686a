"""Programs as chunk programs, compiled and proven, and as additions of numbers."""

import random

import numpy as np
import pytest

from hemiola.collectives import CollectiveKind
from hemiola.ir.verify import verify
from hemiola.synthesis.lower import compile_reduction, runs_of
from hemiola.synthesis.program import ReductionProgram, parse_program
from hemiola.synthesis.search import programs_up_to
from hemiola.synthesis.state import REDUCTIONS
from hemiola.synthesis.table import table_of
from synthesis.execute_on_arrays import execute


def check_sums(program: ReductionProgram, factors: tuple[int, ...]) -> None:
    k = int(np.prod(factors))
    data = np.random.default_rng(k).integers(-1000, 1000, (k, k, 3))
    for held in execute(program, factors, data):
        assert sorted(held) == list(range(k))
        assert all((held[row] == data[:, row].sum(axis=0)).all() for row in range(k)), str(program)


@pytest.mark.parametrize("factors", [(2, 4), (3, 2)])
def test_all_programs_of_two_factors(factors: tuple[int, ...]) -> None:
    programs = list(programs_up_to(table_of(2), 5))
    assert len(programs) == 104
    for program in programs:
        check_sums(program, factors)
        assert verify(compile_reduction(program, factors).plan, slots=2).ok, str(program)


@pytest.mark.parametrize("factors", [(2, 2, 2), (2, 3, 2)])
def test_a_sample_of_three_factors(factors: tuple[int, ...]) -> None:
    programs = list(programs_up_to(table_of(3), 5))
    for program in random.Random(3).sample(programs, 40):
        check_sums(program, factors)
        compile_reduction(program, factors)


@pytest.mark.parametrize("exchange", ["ring", "allpairs", "halving", "trees"])
@pytest.mark.parametrize("tree", ["chain", "tree"])
def test_every_choice_of_algorithms_is_proven(exchange: str, tree: str) -> None:
    for program in programs_up_to(table_of(2), 3):
        compile_reduction(program, (2, 3), exchange=exchange, tree=tree, instances=2)


@pytest.mark.parametrize("exchange", ["ring", "allpairs", "trees"])
def test_steps_on_channels_of_their_own_are_proven(exchange: str) -> None:
    for program in programs_up_to(table_of(2), 3):
        plan = compile_reduction(program, (2, 3), exchange=exchange, staged=True).plan
        assert verify(plan, slots=2).ok, str(program)
        # A channel for every step, and one more for the way back of an all-reduce; none is left out.
        ways = sum(2 if one.collective is CollectiveKind.ALLREDUCE else 1 for one in program)
        assert set(plan.threadblocks["channel"].tolist()) == set(range(ways))


@pytest.mark.parametrize("request_", list(REDUCTIONS))
def test_other_requests_are_proven(request_: CollectiveKind) -> None:
    for program in programs_up_to(table_of(2, request_), 3):
        compile_reduction(program, (2, 3), request=request_)


def test_a_wrong_program_gives_wrong_sums() -> None:
    program = parse_program("allreduce(1, InsideGroup); allreduce(1, Master(0))", 2)
    data = np.ones((4, 4, 1), np.int64)
    held = execute(program, (2, 2), data)
    assert [int(one[0][0]) for one in held] == [4, 2, 4, 2]


def test_neighbouring_chunks_are_one_run() -> None:
    assert runs_of((0, 1, 2, 5, 7, 8)) == [(0, 3), (5, 1), (7, 2)]
    assert runs_of(()) == []
