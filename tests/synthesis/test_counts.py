"""How many programs and states there are."""

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.synthesis.explore import explore
from hemiola.synthesis.search import count_programs, programs_up_to
from hemiola.synthesis.table import live_part, table_of

SUMS_AND_GATHERS = (CollectiveKind.ALLREDUCE, CollectiveKind.REDUCESCATTER, CollectiveKind.ALLGATHER)


@pytest.mark.parametrize(
    ("depth", "by_length", "any_length", "longest"),
    [
        (1, [1, 2], 3, 2),
        (2, [1, 4, 24, 45, 30], 104, 5),
        (3, [1, 6, 59, 336, 1401], 30_941, 10),
        (4, [1, 8, 105, 994, 7531], 1_010_763_782, 19),
    ],
)
def test_programs_of_every_length(depth: int, by_length: list[int], any_length: int, longest: int) -> None:
    counts = count_programs(table_of(depth))
    assert counts[:5] == by_length
    assert sum(counts) == any_length
    assert len(counts) == longest


@pytest.mark.parametrize(("depth", "total"), [(1, 3), (2, 104), (3, 1_803), (4, 8_639)])
def test_programs_one_by_one_are_as_many_and_all_different(depth: int, total: int) -> None:
    programs = list(programs_up_to(table_of(depth), 5))
    assert len(programs) == len(set(programs)) == total


@pytest.mark.parametrize(("depth", "explored", "live"), [(2, 40, 27), (3, 735, 258), (4, 22_317, 3_868)])
def test_states(depth: int, explored: int, live: int) -> None:
    table = table_of(depth)
    assert (table.num_explored, table.num_states) == (explored, live)


@pytest.mark.parametrize(("depth", "total"), [(2, 20), (3, 304), (4, 1_730)])
def test_programs_of_three_collectives_up_to_five_steps(depth: int, total: int) -> None:
    assert sum(count_programs(table_of(depth), SUMS_AND_GATHERS)[:5]) == total


@pytest.mark.slow
def test_programs_up_to_five_steps_over_five_factors() -> None:
    counts = count_programs(live_part(explore(5, CollectiveKind.ALLREDUCE, most_steps=5)))
    assert counts[:5] == [1, 10, 162, 2157, 24152]
    assert sum(counts[:5]) == 26_482
