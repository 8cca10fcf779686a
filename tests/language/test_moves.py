"""Tables of moves: recorded like the operations that they stand for, and refused like them."""

from __future__ import annotations

import numpy as np
import pytest

from hemiola.collectives import AllGather, AllReduce, SendRecv
from hemiola.errors import (
    ChunkIndexError,
    CountError,
    DoubleCountError,
    ProgramError,
    UninitializedChunkError,
)
from hemiola.language.moves import copies, in_turn, reductions
from hemiola.language.program import Program

EVERY = np.arange(4)


def rows(p: Program) -> list[tuple[int, ...]]:
    operations = p.finish(check=False).operations.copy()
    operations["line"] = 0
    return list(operations.tolist())


def one_by_one(p: Program) -> None:
    for k in range(4):
        p.chunk(0, "input", k).copy(1, "there", k)
        p.chunk(1, "input", k).reduce(p.chunk(1, "there", k))


def at_once(p: Program) -> None:
    there = copies(p, (0, "input", EVERY), (1, "there", EVERY))
    p.record_moves(in_turn(there, reductions(p, (1, "there", EVERY), (1, "input", EVERY))))


def program(chunks: int = 4) -> Program:
    return Program("sum", AllReduce(2, chunks, in_place=True), instances=2)


def test_a_table_records_what_its_operations_would() -> None:
    alone, together = program(), program()
    one_by_one(alone)
    at_once(together)
    assert rows(together) == rows(alone)
    assert together.finish(check=False).scratch_chunks.tolist() == [0, 4]


def test_a_channel_holds_for_tables() -> None:
    p = program()
    with p.channel(3):
        at_once(p)
    assert set(p.finish(check=False).operations["channel"].tolist()) == {3}


def test_all_rows_have_the_line_of_the_call() -> None:
    p = program()
    p.record_moves(copies(p, (0, "input", EVERY), (1, "there", EVERY)))
    (line,) = p.lines
    assert line.rpartition(":")[0].endswith("test_moves.py")


def test_an_empty_table_records_nothing() -> None:
    p = program()
    p.record_moves(copies(p, (0, "input", EVERY[:0]), (1, "there", EVERY[:0])))
    assert rows(p) == []


def test_a_copy_to_itself_is_none() -> None:
    p = program()
    p.record_moves(copies(p, (0, "input", EVERY), (0, "input", EVERY)))
    assert rows(p) == []


def test_rows_see_what_the_rows_before_them_wrote() -> None:
    ranks = np.arange(4)
    p = Program("chain", AllGather(4, in_place=True))
    for _ in range(2):
        p.record_moves(copies(p, (ranks[:-1], "output", 0), (ranks[1:], "output", 0)))
    assert p.contributions(3, "output", 0) == [(0, 0)]


@pytest.mark.parametrize(
    ("source", "target", "counts", "error", "words"),
    [
        ((0, "input", 4), (1, "there", 0), 1, ChunkIndexError, r"input\[4\] of rank 0"),
        ((0, "input", -1), (1, "there", 0), 1, ChunkIndexError, r"input\[-1\] of rank 0"),
        ((0, "input", 0), (1, "input", 4), 1, ChunkIndexError, r"input\[4\] of rank 1"),
        ((2, "input", 0), (1, "input", 0), 1, ChunkIndexError, "rank 2 does not exist"),
        ((-1, "input", 0), (1, "input", 0), 1, ChunkIndexError, "rank -1 does not exist"),
        ((0, "input", 0), (2, "input", 0), 1, ChunkIndexError, "rank 2 does not exist"),
        ((0, "there", 0), (1, "input", 0), 1, UninitializedChunkError, r"there\[0\] of rank 0 is read"),
        ((0, "input", 0), (1, "input", 0), 0, CountError, "count 0"),
        ((0, "input", 0), (0, "input", 1), 2, ProgramError, r"input\[0:2\] of rank 0 and input\[1\] of rank 0 over"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_refused_like_its_operation(
    source: tuple[int, str, int], target: tuple[int, str, int], counts: int, error: type[ProgramError], words: str
) -> None:  # fmt: skip
    p = program()
    with pytest.raises(error, match=words):
        p.record_moves(copies(p, source, target, counts))


def test_a_contribution_is_counted_once() -> None:
    p = program()
    move = reductions(p, (0, "input", EVERY), (1, "input", EVERY))
    with pytest.raises(
        DoubleCountError, match=r"input\[0\] of rank 0 cannot be reduced into input\[0\] of rank 1"
    ):
        p.record_moves(np.concatenate([move, move]))
    assert len(rows(p)) == 4


def test_the_promise_is_checked_as_ever() -> None:
    p = Program("forth", SendRecv(2, chunks=2))
    p.record_moves(copies(p, (0, "input", np.arange(1)), (1, "output", 0)))
    with pytest.raises(ProgramError, match="output"):
        p.finish()
