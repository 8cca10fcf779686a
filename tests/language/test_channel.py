"""Blocks of operations on a channel of their own."""

import pytest

from hemiola.collectives import AllReduce
from hemiola.compiler.compile import compile_program
from hemiola.errors import ChunkIndexError, ProgramError
from hemiola.language.program import Program


def two_parts(*, instances: int = 1) -> Program:
    """The sum goes from rank 1 to rank 0 by channel 3, and back by channel 5."""
    p = Program("two_parts", AllReduce(2, in_place=True), instances=instances)
    with p.channel(3):
        total = p.chunk(0).reduce(p.chunk(1))
        with p.channel(5):
            total.copy(1)
    return p


def channels(program: Program) -> list[int]:
    return sorted(set(compile_program(program).plan.threadblocks["channel"].tolist()))


def test_the_innermost_block_counts() -> None:
    assert [row["channel"] for row in two_parts().finish().operations] == [3, 5]
    assert len(channels(two_parts())) == 2


def test_instances_have_channels_of_their_own() -> None:
    assert len(channels(two_parts(instances=2))) == 4


def test_what_an_operation_says_goes_before() -> None:
    p = Program("by_hand", AllReduce(2, in_place=True))
    with p.channel(1):
        p.chunk(0).reduce(p.chunk(1), ch=2).copy(1)
    assert [row["channel"] for row in p.finish().operations] == [2, 1]


def test_after_a_block_the_compiler_chooses_again() -> None:
    p = Program("after", AllReduce(2, in_place=True))
    with p.channel(7):
        total = p.chunk(0).reduce(p.chunk(1))
    total.copy(1)
    assert [row["channel"] for row in p.finish().operations] == [7, -1]


def test_a_channel_is_a_small_whole_number() -> None:
    p = Program("wrong", AllReduce(2, in_place=True))
    with pytest.raises(ProgramError, match="ch is -2, but with 1 instances it is from 0"), p.channel(-2):
        pass
    with pytest.raises(ChunkIndexError, match="whole numbers"), p.channel("3"):  # type: ignore[arg-type]
        pass


def test_a_channel_is_checked_again_where_there_are_more_instances() -> None:
    p = Program("too_many", AllReduce(2, in_place=True))
    with (
        p.channel(65535),
        p.parallelize(4),
        pytest.raises(ProgramError, match="ch is 65535, but with 4 instances"),
    ):
        p.chunk(0).reduce(p.chunk(1))
