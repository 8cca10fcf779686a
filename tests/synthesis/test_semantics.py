"""The table against the rules taken literally."""

import random

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.synthesis.groups import groupings, instruction_of
from hemiola.synthesis.program import Instruction, ReductionProgram
from hemiola.synthesis.search import programs_up_to
from hemiola.synthesis.state import REDUCTIONS
from hemiola.synthesis.table import table_of
from synthesis.dense_reference import Matrices, achieves, apply, start


@pytest.mark.parametrize("factors", [(2, 4), (3, 2), (3, 6), (5, 7), (4, 4)])
def test_all_programs_of_two_factors_hold_for_other_sizes(factors: tuple[int, ...]) -> None:
    for program in programs_up_to(table_of(2), 5):
        assert achieves(program, factors, CollectiveKind.ALLREDUCE), str(program)


@pytest.mark.parametrize(
    ("factors", "sample"), [((4, 2, 3), 60), ((2, 6, 3), 40), ((3, 5, 2), 60), ((2, 3, 2, 3), 30), ((3, 2, 2, 2), 60)]
)  # fmt: skip
def test_programs_of_three_and_four_factors_hold_for_other_sizes(
    factors: tuple[int, ...], sample: int
) -> None:
    programs = list(programs_up_to(table_of(len(factors)), 5))
    for program in random.Random(6).sample(programs, sample):
        assert achieves(program, factors, CollectiveKind.ALLREDUCE), str(program)


@pytest.mark.parametrize("request_", list(REDUCTIONS))
def test_programs_of_other_requests_hold(request_: CollectiveKind) -> None:
    programs = list(programs_up_to(table_of(2, request_), 4))
    assert programs
    for factors in ((2, 2), (3, 4), (5, 2)):
        for program in programs:
            assert achieves(program, factors, request_), f"{program} on {factors}"


@pytest.mark.parametrize("factors", [(2, 2), (3, 2), (2, 3)])
def test_the_table_has_every_program_of_three_steps(factors: tuple[int, ...]) -> None:
    """Found by trying all steps on matrices, for odd sizes too: nothing is missing, nothing is too much."""
    steps = [instruction_of(one, collective, 2) for one in groupings(2) for collective in REDUCTIONS]
    found: set[ReductionProgram] = set()
    layer: list[tuple[tuple[Instruction, ...], Matrices]] = [
        ((), start(CollectiveKind.ALLREDUCE, factors[0] * factors[1]))
    ]
    for _ in range(3):
        after = []
        for path, held in layer:
            for step in steps:
                reached = apply(step, held, factors)
                if reached is None:
                    continue
                if reached.all():
                    found.add(ReductionProgram(2, (*path, step)))
                else:
                    after.append(((*path, step), reached))
        layer = after
    assert found == set(programs_up_to(table_of(2), 3))
