"""Which devices a step joins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.collectives import CollectiveKind
from hemiola.errors import ReductionError
from hemiola.synthesis.groups import grouping_of, groupings, groups_of, instruction_of
from hemiola.synthesis.program import Form, Instruction, ReductionProgram, parse_program
from hemiola.synthesis.state import REDUCTIONS
from synthesis.dense_reference import groups_by_words

FACTORS = st.lists(st.integers(2, 4), min_size=1, max_size=4).map(tuple)


def all_instructions(depth: int) -> list[Instruction]:
    """Every slice level with every form and ancestor, also where two give the same groups."""
    inside = [Instruction(level, Form.INSIDE, CollectiveKind.ALLREDUCE) for level in range(depth)]
    between = [
        Instruction(level, form, CollectiveKind.ALLREDUCE, ancestor)
        for form in (Form.PARALLEL, Form.MASTER)
        for level in range(1, depth + 1)
        for ancestor in range(level)
    ]
    return inside + between


@given(FACTORS)
def test_groups_are_what_the_forms_say(factors: tuple[int, ...]) -> None:
    for instruction in all_instructions(len(factors)):
        found = groups_of(grouping_of(instruction, len(factors)), factors)
        assert sorted(map(list, found)) == sorted(groups_by_words(instruction, factors))


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_there_are_n_squared_groupings(depth: int) -> None:
    factors = (2,) * depth
    distinct = {frozenset(groups_of(one, factors)) for one in groupings(depth)}
    by_words = {
        frozenset(tuple(group) for group in groups_by_words(one, factors)) for one in all_instructions(depth)
    }
    assert len(distinct) == depth**2
    assert distinct == by_words


@given(st.integers(1, 4), st.data())
def test_a_program_reads_as_it_is_written(depth: int, data: st.DataObject) -> None:
    step = st.builds(
        lambda grouping, collective: instruction_of(grouping, collective, depth),
        st.sampled_from(groupings(depth)),
        st.sampled_from(REDUCTIONS),
    )
    program = ReductionProgram(depth, tuple(data.draw(st.lists(step, max_size=6))))
    assert parse_program(str(program), depth) == program


@pytest.mark.parametrize(
    "text",
    ["allreduce", "allreduce(0, Sideways)", "sum(0, InsideGroup)", "allreduce(1, Parallel)", "allreduce(3, InsideGroup)",
     "allreduce(1, Parallel(1))", "allreduce(0, InsideGroup(0))", "reduce(4, Master(0))"],
)  # fmt: skip
def test_what_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(ReductionError):
        parse_program(text, 3)
