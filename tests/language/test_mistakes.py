"""Every mistake of a chunk program raises at the user's line and says what was expected, found, and to do."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hemiola.collectives import AllGather, AllReduce, Collective, Custom
from hemiola.errors import (
    ChunkIndexError,
    CountError,
    DoubleCountError,
    GroupError,
    PostconditionError,
    ProgramError,
    StaleReferenceError,
    ThreadblockError,
    UninitializedChunkError,
)
from hemiola.language.program import Program


def stale(p: Program) -> None:
    old = p.chunk(0, "input", 0)
    p.chunk(1, "input", 0).copy(0, "input", 0)
    old.copy(1, "output", 0)  # wrong


def stale_after_reduce(p: Program) -> None:
    c = p.chunk(1, "input", 0)
    c.reduce(p.chunk(0, "input", 0))
    c.copy(0, "output", 0)  # wrong


def stale_target(p: Program) -> None:
    target = p.chunk(1, "input", 0)
    p.chunk(0, "input", 1).copy(1, "input", 0)
    target.reduce(p.chunk(0, "input", 0))  # wrong


def stale_in_group(p: Program) -> None:
    first = p.chunk(0, "input", 0)
    p.chunk(1, "input", 0).copy(0, "input", 0)
    first.group(p.chunk(0, "input", 1))  # wrong


def uninitialized(p: Program) -> None:
    p.chunk(0, "output", 1)  # wrong


def uninitialized_scratch(p: Program) -> None:
    p.chunk(0, "input", 0).copy(1, "tmp", 0)
    p.chunk(1, "tmp", 1)  # wrong


def outside(p: Program) -> None:
    p.chunk(1, "input", 2)  # wrong


def outside_by_count(p: Program) -> None:
    p.chunk(0, "input", 1, 2)  # wrong


def negative(p: Program) -> None:
    p.chunk(0, "input", -1)  # wrong


def copy_outside(p: Program) -> None:
    p.chunk(0, "input", 0).copy(1, "output", 7)  # wrong


def no_such_rank(p: Program) -> None:
    p.chunk(0, "input", 0).copy(2, "output", 0)  # wrong


def output_without_index(p: Program) -> None:
    p.chunk(0, "input", 0).copy(1, "output")  # wrong


def gap(p: Program) -> None:
    p.chunk(0, "input", 0).copy(1, "tmp", 0)
    p.chunk(0, "input", 1).copy(1, "tmp", 2)
    p.chunk(1, "tmp", 0).group(p.chunk(1, "tmp", 2))  # wrong


def group_overlaps(p: Program) -> None:
    p.chunk(0, "input", 0, 2).group(p.chunk(0, "input", 1))  # wrong


def group_elsewhere(p: Program) -> None:
    p.chunk(0, "input", 0).group(p.chunk(1, "input", 1))  # wrong


def split_unevenly(p: Program) -> None:
    p.chunk(0, "input", 0, 2).split(3)  # wrong


def unequal_counts(p: Program) -> None:
    p.chunk(0, "input", 0, 2).reduce(p.chunk(1, "input", 0))  # wrong


def no_count(p: Program) -> None:
    p.chunk(0, "input", 0, 0)  # wrong


def double_count(p: Program) -> None:
    total = p.chunk(1, "input", 0).reduce(p.chunk(0, "input", 0))
    total.reduce(p.chunk(0, "input", 0))  # wrong


def add_to_itself(p: Program) -> None:
    c = p.chunk(0, "input", 0)
    c.reduce(c)  # wrong


def shifted_onto_itself(p: Program) -> None:
    p.chunk(0, "input", 0, 2).copy(0, "tmp", 0)
    p.chunk(0, "tmp", 0, 2).copy(0, "tmp", 1)  # wrong


def another_program(p: Program) -> None:
    p.chunk(0, "input", 0).reduce(Program("other", p.collective).chunk(1, "input", 0))  # wrong


def channel_too_high(p: Program) -> None:
    p.chunk(0, "input", 0).copy(1, "output", 0, ch=1 << 16)  # wrong


def negative_threadblock(p: Program) -> None:
    p.chunk(0, "input", 0).copy(1, "output", 0, sendtb=-7)  # wrong


def huge_index(p: Program) -> None:
    p.chunk(0, "input", 1 << 70)  # wrong


def too_much_scratch(p: Program) -> None:
    p.chunk(0, "input", 0).copy(1, "a", (1 << 27))
    p.chunk(0, "input", 0).copy(1, "b", (1 << 27))  # wrong


MISTAKES: list[tuple[Callable[[Program], None], type[ProgramError], str]] = [
    (stale, StaleReferenceError, r"input\[0\] of rank 0 was overwritten at .*test_mistakes.py:\d+ after this .* chunk\(\)"),
    (stale_after_reduce, StaleReferenceError, r"input\[0\] of rank 1 was overwritten .* use the reference that"),
    (stale_target, StaleReferenceError, r"input\[0\] of rank 1 was overwritten"),
    (stale_in_group, StaleReferenceError, r"input\[0\] of rank 0 was overwritten"),
    (uninitialized, UninitializedChunkError, r"output\[1\] of rank 0 is read, but nothing .* copy something to it first"),
    (uninitialized_scratch, UninitializedChunkError, r"tmp\[1\] of rank 1 is read, but nothing has been written"),
    (outside, ChunkIndexError, r"input\[2\] of rank 1 is outside .* has chunks 0 to 1 .* smaller index or more chunks"),
    (outside_by_count, ChunkIndexError, r"input\[1\] of rank 0 with count 2 is outside .* chunks 0 to 1"),
    (negative, ChunkIndexError, r"input\[-1\] of rank 0 is outside"),
    (copy_outside, ChunkIndexError, r"output\[7\] of rank 1 is outside"),
    (no_such_rank, ChunkIndexError, r"rank 2 does not exist: test has ranks 0 to 1"),
    (output_without_index, ChunkIndexError, r"a copy to output of rank 1 needs an index; only a scratch buffer"),
    (gap, GroupError, r"tmp\[0\] of rank 1 and tmp\[2\] of rank 1 are not neighbours: chunks 1 to 1 between them"),
    (group_overlaps, GroupError, r"chunks 1 to 1 belong to both"),
    (group_elsewhere, GroupError, r"are not in one buffer of one rank; copy one of them first"),
    (split_unevenly, GroupError, r"has 2 chunks, which cannot be split into 3 .* use a divisor of 2"),
    (unequal_counts, CountError, r"has 2 chunks, but input\[0\] of rank 1, .* has 1; split or group"),
    (no_count, CountError, r"count 0; a reference has at least one chunk"),
    (double_count, DoubleCountError, r"contribution of rank 0 \(input\[0\]\) is in both .* counted twice"),
    (add_to_itself, DoubleCountError, r"contribution of rank 0 \(input\[0\]\) is in both"),
    (shifted_onto_itself, ProgramError, r"overlap without being the same chunks, .* go through a scratch buffer"),
    (channel_too_high, ProgramError, r"ch is 65536, but with 1 instances it is from 0 to 65535; leave it out"),
    (negative_threadblock, ProgramError, r"sendtb is -7, but"),
    (huge_index, ChunkIndexError, r"whole numbers below 2\^31, but rank is 0, index is 1180591620717411303424"),
    (too_much_scratch, ChunkIndexError, r"b\[134217728\] of rank 1 is outside of what a scratch buffer can have"),
    (another_program, ProgramError, r"belongs to another program"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES, ids=lambda m: getattr(m, "__name__", ""))
def test_a_mistake_raises_at_the_users_line(
    mistake: Callable[[Program], None], error: type[ProgramError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        mistake(Program("test", AllReduce(2, chunks=2)))
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    users = [entry for entry in caught.traceback if str(entry.path) == __file__]
    assert lines[users[-1].lineno].endswith("# wrong")


def test_a_refused_operation_changes_nothing() -> None:
    p = Program("test", AllReduce(2, chunks=2))
    before = p.chunk(1, "input", 0, 2)
    p.chunk(1, "input", 1).reduce(p.chunk(0, "input", 1)).copy(0, "tmp", 0)
    with pytest.raises(DoubleCountError):
        p.chunk(1, "input", 0, 2).reduce(p.chunk(0, "input", 0, 2))
    assert p.contributions(1, "input", 0) == [(1, 0)]
    assert len(p.finish(check=False).operations) == 2
    with pytest.raises(StaleReferenceError):
        before.copy(0, "tmp", 1)


def missing_output(p: Program) -> None:
    p.chunk(0, "input", 0).copy(1, "output", 0)


def missing_contribution(p: Program) -> None:
    for rank in (0, 1):
        p.chunk(rank, "input", 0, 2).copy(rank, "output", 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            missing_output,
            r"ends without writing output\[0\] of rank 0; allreduce promises the sum of input\[0\] over",
        ),
        (
            missing_contribution,
            r"leaves input\[0\] of rank 0 in output\[0\] .* missing is input\[0\] of rank 1",
        ),
    ],
)
def test_a_program_that_does_not_achieve_its_collective_is_refused(
    body: Callable[[Program], None], message: str
) -> None:
    p = Program("test", AllReduce(2, chunks=2))
    body(p)
    with pytest.raises(PostconditionError, match=message):
        p.finish()


def test_too_much_is_named() -> None:
    collective = Custom(input_chunks=[1, 1], output_chunks=[1, 0], promises={(0, 0): [(0, 0)]})
    p = Program("test", collective)
    p.chunk(0, "input", 0).copy(0, "output", 0).reduce(p.chunk(1, "input", 0))
    with pytest.raises(PostconditionError, match=r"too much is input\[0\] of rank 1"):
        p.finish()


def test_threadblocks_by_hand_that_cannot_run_are_refused() -> None:
    from hemiola.compiler.compile import compile_program

    p = Program("test", AllGather(3, in_place=True))
    for rank in range(3):
        for peer in range(3):
            if peer != rank:
                p.chunk(rank, "input", 0).copy(peer, "output", rank, sendtb=0, recvtb=1 + rank, ch=0)
    with pytest.raises(
        ThreadblockError, match=r"test_mistakes.py:\d+: threadblock 0 of rank 0 would have two peers"
    ):
        compile_program(p)


def ring(collective: Collective) -> Program:
    p = Program("ring", collective)
    n = p.num_ranks
    for start in range(n):
        c = p.chunk(start, "input", start)
        for hop in range(1, n):
            c = p.chunk((start + hop) % n, "input", start).reduce(c)
        for hop in range(n, 2 * n - 1):
            c = c.copy((start + hop) % n)
    return p


def test_programs_nest_and_run_in_threads() -> None:
    outer = Program("outer", AllReduce(2, chunks=2, in_place=True))
    c = outer.chunk(0, "input", 0)
    done: list[int] = []

    def work(ranks: int) -> None:
        done.append(len(ring(AllReduce(ranks, chunks=ranks, in_place=True)).finish().operations))

    threads = [threading.Thread(target=work, args=(ranks,)) for ranks in (3, 4, 5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outer.chunk(1, "input", 0).reduce(c).copy(0)
    assert sorted(done) == [2 * n * (n - 1) for n in (3, 4, 5, 6)]
    assert len(outer.finish(check=False).operations) == 2


def test_scratch_is_appended_to_and_copies_keep_their_place() -> None:
    p = Program("test", AllReduce(2, chunks=2))
    assert repr(p.chunk(0, "input", 1).copy(1)) == "input[1] of rank 1"
    first = p.chunk(0, "input", 0).copy(1, "tmp")
    second = p.chunk(0, "input", 0, 2).copy(1, "tmp")
    assert re.fullmatch(r"tmp\[0\] of rank 1", repr(first))
    assert repr(second) == "tmp[1:3] of rank 1"
