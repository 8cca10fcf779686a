"""The proof: what it accepts, what it refuses, and what it says."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from hand_made import INPUT, OUTPUT, block, step
from hemiola.algorithms.library import build
from hemiola.collectives import AllGather, AllReduce, AllToAll, Broadcast, Custom, SendRecv
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.errors import PlanError
from hemiola.ir.plan import Plan, Rows
from hemiola.ir.verdict import Failure, FailureKind
from hemiola.ir.verify import verify
from hemiola.language.program import Program
from mutations import DraftBlock, plan_of


def only_failure(plan: Plan, slots: int = 2) -> Failure:
    verdict = verify(plan, slots=slots)
    assert not verdict.ok
    assert len({failure.kind for failure in verdict.failures}) == 1, verdict.failures
    return verdict.failures[0]


def exchange(count: int) -> Plan:
    """Two ranks each send ``count`` chunks and then receive as many, in one threadblock."""
    blocks = [
        block(
            rank,
            *(step("s", source=(INPUT, k)) for k in range(count)),
            *(step("r", target=(OUTPUT, k)) for k in range(count)),
            to=1 - rank,
            source=1 - rank,
        )
        for rank in (0, 1)
    ]
    promises = {(rank, k): [(1 - rank, k)] for rank in (0, 1) for k in range(count)}
    sizes = [count, count]
    return plan_of(Custom(input_chunks=sizes, output_chunks=sizes, promises=promises), blocks)


@pytest.mark.parametrize("slots", [0, 1, 2, 8])
def test_twenty_chunks_exchanged_in_one_threadblock_deadlock(slots: int) -> None:
    failure = only_failure(exchange(20), slots)
    assert failure.kind is FailureKind.DEADLOCK
    assert failure.message.startswith(
        f"with {slots} slot{'s' if slots != 1 else ''} per connection, each of these"
    )
    cycle = failure.message.splitlines()[1:]
    what = "takes its message" if slots == 0 else "a free slot"
    assert len(cycle) == 2
    stopped = re.compile(rf"rank [01], threadblock 0, step {slots} \(s\) waits .*{what}")
    assert all(stopped.search(line) for line in cycle), cycle


def test_it_runs_with_a_slot_for_each() -> None:
    assert verify(exchange(20), slots=20).ok
    assert not verify(exchange(20), slots=19).ok


def test_a_step_of_several_chunks_is_judged_for_one_slot_and_for_one_each() -> None:
    whole = [
        block(rank, step("s", source=(INPUT, 0), count=4), step("r", target=(OUTPUT, 0), count=4), to=1 - rank, source=1 - rank)
        for rank in (0, 1)
    ]  # fmt: skip
    promises = {(rank, k): [(1 - rank, k)] for rank in (0, 1) for k in range(4)}
    plan = plan_of(Custom(input_chunks=[4, 4], output_chunks=[4, 4], promises=promises), whole)
    failure = only_failure(plan, slots=2)
    assert "when a step takes one per chunk" in failure.message
    assert verify(plan, slots=4).ok


def test_a_race_names_both_accesses_and_the_users_lines() -> None:
    p = Program("race", Broadcast(3))
    for rank in range(3):
        p.chunk(0, "input", 0).copy(rank, "output", 0)
    p.chunk(0, "output", 0).copy(1, "tmp", 0).copy(1, "output", 0)
    plan = compile_program(p, CompileOptions(disabled=frozenset({"forward_copies"}))).plan
    assert len(plan.dependencies) > 0
    steps = plan.steps.copy()
    steps["first_dependency"] = 0
    racing = replace(plan, steps=steps, dependencies=plan.dependencies[:0])
    failure = verify(racing).failures[0]
    assert failure.kind is FailureKind.RACE
    assert len(re.findall(r"rank \d, threadblock \d, step \d \(\w+, [^)]*test_verify.py:\d+\) (?:reads|writes) it", failure.message)) == 2  # fmt: skip
    assert "nothing orders the two; a dependency between them is missing" in failure.message
    assert (failure.rank, failure.line) != (None, None)


def test_slots_give_no_order() -> None:
    """With one slot the second send could only start after the first was taken; that does not count."""
    blocks = [
        block(0, step("s", source=(INPUT, 0)), step("s", source=(INPUT, 0)), to=1),
        block(0, step("r", target=(INPUT, 0)), source=1),
        block(1, step("r", target=(OUTPUT, 0)), step("r", target=(OUTPUT, 1)), source=0),
        block(1, step("s", source=(OUTPUT, 0), waits=[(0, 0)]), to=0),
    ]
    plan = plan_of(Custom(input_chunks=[1, 0], output_chunks=[0, 2], promises={(1, 0): [(0, 0)]}), blocks)
    assert only_failure(plan, slots=1).kind is FailureKind.RACE


def test_a_message_that_arrives_chunk_by_chunk_gives_order_only_chunk_by_chunk() -> None:
    """Chunk 0 comes back to where chunk 1 still waits to be sent."""

    def plan(target: int) -> Plan:
        blocks = [
            block(0, step("s", source=(INPUT, 0), count=2), to=1),
            block(0, step("r", target=(INPUT, target), count=2), source=1),
            block(1, step("rcs", target=(OUTPUT, 0), count=2), source=0, to=0),
        ]  # fmt: skip
        promises = {(1, k): [(0, k)] for k in (0, 1)}
        return plan_of(Custom(input_chunks=[4, 0], output_chunks=[0, 2], promises=promises), blocks)

    assert only_failure(plan(1)).kind is FailureKind.RACE
    assert verify(plan(0)).ok
    assert verify(plan(2)).ok


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([block(0, step("s", source=(INPUT, 0)), to=1)], r"sends to rank 1 on channel 0, but nothing there receives"),
        ([block(1, step("r", target=(OUTPUT, 0)), source=0)], r"receives from rank 0 on channel 0, but nothing there sends"),
        (
            [
                block(0, step("s", source=(INPUT, 0), count=2), to=1),
                block(1, step("r", target=(OUTPUT, 0)), step("r", target=(OUTPUT, 1)), source=0),
            ],
            r"sends 2 chunks, but rank 1, threadblock 0, step 0 \(r\), which takes this message, receives 1",
        ),
        (
            [
                block(0, step("s", source=(INPUT, 0)), to=1),
                block(0, step("s", source=(INPUT, 1)), to=1),
                block(1, step("r", target=(OUTPUT, 0)), step("r", target=(OUTPUT, 1)), source=0),
            ],
            r"rank 0: threadblocks 0 and 1 both send to rank 1 on channel 0; a connection has one threadblock",
        ),
    ],
)  # fmt: skip
def test_connections_that_do_not_match(blocks: list[DraftBlock], message: str) -> None:
    failure = only_failure(plan_of(SendRecv(2, chunks=2), blocks))
    assert failure.kind is FailureKind.CONNECTION
    assert re.search(message, failure.message)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (
            [block(0, step("s", source=(INPUT, 0)), to=1), block(1, step("r", target=(OUTPUT, 0)), source=0)],
            r"output\[0\] of rank 0 does not hold what allreduce promises: it is built on a chunk that nothing",
        ),
        (
            [
                block(0, step("cpy", source=(INPUT, 0), target=(OUTPUT, 0)), step("re", source=(INPUT, 0), target=(OUTPUT, 0))),
                block(1, step("cpy", source=(INPUT, 0), target=(OUTPUT, 0))),
            ],
            r"output\[0\] of rank 0 .*: missing: input\[0\] of rank 1; too much: input\[0\] of rank 0",
        ),
    ],
)  # fmt: skip
def test_broken_promises_say_what_is_missing_and_what_is_too_much(
    blocks: list[DraftBlock], message: str
) -> None:
    failure = only_failure(plan_of(AllReduce(2), blocks))
    assert failure.kind is FailureKind.POSTCONDITION
    assert re.search(message, failure.message)


def test_ranks_that_add_in_another_order_are_reported_not_refused() -> None:
    def one_step(order: list[list[int]]) -> Plan:
        p = Program("one", AllReduce(3))
        for rank in range(3):
            total = p.chunk(order[rank][0], "input", 0).copy(rank, "output", 0)
            for peer in order[rank][1:]:
                total = total.reduce(p.chunk(peer, "input", 0))
        return compile_program(p).plan

    assert verify(one_step([[0, 1, 2], [0, 1, 2], [1, 0, 2]])).same_expression
    different = verify(one_step([[0, 1, 2], [1, 2, 0], [0, 1, 2]]))
    assert different.ok
    assert not different.same_expression


def test_writing_the_input_of_an_out_of_place_call_is_reported() -> None:
    p = Program("in", Broadcast(2))
    p.chunk(0, "input", 0).copy(0, "output", 0).copy(1, "output", 0)
    assert compile_program(p).verdict.preserves_input
    q = Program("in", AllReduce(2))
    total = q.chunk(0, "input", 0).reduce(q.chunk(1, "input", 0))
    total.copy(0, "output", 0)
    total.copy(1, "output", 0)
    assert not compile_program(q).verdict.preserves_input


def test_in_place_names_of_the_same_memory_are_the_same_memory() -> None:
    """An in-place all-gather whose steps name input and output alike; and one that overwrites itself."""

    def plan(target: int) -> Plan:
        blocks = [
            block(rank, step("s", source=(INPUT, 0)), step("r", target=(OUTPUT, (1 - rank + target) % 2)), to=1 - rank, source=1 - rank)
            for rank in (0, 1)
        ]  # fmt: skip
        made = plan_of(AllGather(2, in_place=True), blocks)
        ranks = made.ranks.copy()
        ranks["input_chunks"], ranks["output_chunks"] = 1, 2
        return replace(made, ranks=ranks)

    assert verify(plan(0)).ok
    assert not verify(plan(1)).ok


def test_a_plan_for_both_places_is_proven_for_both() -> None:
    plan = compile_program(build("alltoall_allpairs", {"ranks": "4"})).plan
    verdict = verify(replace(plan, both_places=True))
    assert {failure.message.split(":")[0] for failure in verdict.failures} == {"in place"}


def test_the_meaning_of_a_file_that_cannot_say_it_is_unknown_or_given() -> None:
    blocks = [block(0, step("s", source=(INPUT, 0)), to=1), block(1, step("r", target=(OUTPUT, 0)), source=0)]
    silent = plan_of(Custom(input_chunks=[1, 0], output_chunks=[0, 1], promises={}), blocks)
    assert verify(silent).ok
    assert not verify(silent).postcondition_known
    said = Custom(input_chunks=[1, 0], output_chunks=[0, 1], promises={(1, 0): [(0, 0)]})
    assert verify(silent, collective=said).postcondition_known
    swapped = Custom(input_chunks=[1, 1], output_chunks=[1, 1], promises={(0, 0): [(1, 0)]})
    assert not verify(replace(silent, ranks=_with_sizes(silent, 1, 1)), collective=swapped).ok


def _with_sizes(plan: Plan, inputs: int, outputs: int) -> Rows:
    ranks = plan.ranks.copy()
    ranks["input_chunks"], ranks["output_chunks"] = inputs, outputs
    return ranks


@pytest.mark.parametrize("ranks", [70, 130])
def test_sums_in_any_order_of_ranks(ranks: int) -> None:
    """A ring through the ranks in a scrambled order: sets of contributions with many gaps."""
    order = [int(rank) for rank in np.random.default_rng(3).permutation(ranks)]
    p = Program("scrambled", AllReduce(ranks, chunks=2, in_place=True))
    for index in (0, 1):
        total = p.chunk(order[0], "input", index)
        for rank in order[1:]:
            total = p.chunk(rank, "input", index).reduce(total)
        for rank in order[:-1]:
            total = total.copy(rank)
    assert compile_program(p).verdict.same_expression


def test_a_long_sum_of_different_chunks_of_one_rank() -> None:
    """Contributions of one chunk may be many and come in any order."""
    length = 3000
    promises = {(0, 0): [(0, k) for k in range(length)]}
    p = Program("chain", Custom(input_chunks=[length], output_chunks=[1], promises=promises))
    total = p.chunk(0, "input", length - 1).copy(0, "output", 0)
    for k in [*range(0, length - 1, 2), *range(1, length - 1, 2)]:
        total = total.reduce(p.chunk(0, "input", k))
    assert compile_program(p).plan.num_steps == length


@pytest.mark.parametrize("kind", [AllReduce, AllGather, AllToAll])
def test_one_rank_needs_nothing_in_place(kind: type) -> None:
    p = Program("alone", kind(1, chunks=3, in_place=True))
    plan = compile_program(p).plan
    assert plan.num_steps == 0
    assert verify(plan).ok


def test_nothing_beyond_what_the_caller_gives_is_used() -> None:
    """A file may claim a larger input, but a receive into its extra chunk writes foreign memory."""
    blocks = [
        block(0, step("s", source=(INPUT, 0)), to=1),
        block(1, step("r", target=(INPUT, 1)), step("cpy", source=(INPUT, 1), target=(OUTPUT, 0)), source=0),
    ]
    collective = Custom(input_chunks=[1, 1], output_chunks=[0, 1], promises={(1, 0): [(0, 0)]})
    plan = plan_of(collective, blocks)
    claims = replace(plan, ranks=_with_sizes(plan, 2, 1))
    assert only_failure(claims).kind is FailureKind.FORM


def test_the_form_of_a_plan_for_both_places_is_checked_for_both() -> None:
    plan = compile_program(build("allgather_allpairs", {"ranks": "3"})).plan
    ranks = plan.ranks.copy()
    ranks["output_chunks"] = 2
    verdict = verify(replace(plan, ranks=ranks, both_places=True))
    assert {failure.message.split(":")[0] for failure in verdict.failures} == {"in place", "out of place"}


def test_the_order_of_additions_is_compared_for_ones_own_collectives_too() -> None:
    promises = {(rank, 0): [(0, 0), (1, 0), (2, 0)] for rank in range(3)}
    p = Program("own", Custom(input_chunks=[1] * 3, output_chunks=[1] * 3, promises=promises))
    for rank in range(3):
        total = p.chunk(rank, "input", 0).copy(rank, "output", 0)
        for hop in (1, 2):
            total = total.reduce(p.chunk((rank + hop) % 3, "input", 0))
    assert not compile_program(p).verdict.same_expression


def test_in_place_the_larger_buffer_counts() -> None:
    collective = Custom(input_chunks=[1], output_chunks=[3], promises={(0, 2): [(0, 0)]}, in_place=True)
    p = Program("grown", collective)
    p.chunk(0, "input", 0).copy(0, "output", 2)
    assert compile_program(p).plan.num_steps == 1


def test_threadblocks_by_hand_at_one_end_only() -> None:
    p = Program("mixed", SendRecv(2, 2))
    p.chunk(0, "input", 0).copy(1, "output", 0, sendtb=2, recvtb=1)
    p.chunk(0, "input", 1).copy(1, "output", 1, recvtb=3)
    assert compile_program(p).plan.num_channels == 2


def test_ranges_that_cut_each_other_into_too_many_pieces_are_refused_before_memory_is_taken() -> None:
    count = 20_000
    steps = [step("cpy", source=(INPUT, k), target=(OUTPUT, k), count=count) for k in range(count)]
    sizes = [2 * count]
    plan = plan_of(Custom(input_chunks=sizes, output_chunks=sizes, promises={}), [block(0, *steps)])
    with pytest.raises(PlanError, match="too large to prove"):
        verify(plan)


def test_a_wrong_sum_of_very_many_contributions_is_refused_quickly() -> None:
    """The message lists what it can; doubling a sum 20 times has more contributions than a page."""
    length = 20
    doubled = [step("re", source=(INPUT, 0), target=(INPUT, 1 << k), count=1) for k in range(length)]
    sizes = [1 << length]
    promises = {(0, k): [(0, k)] for k in range(4)}
    plan = plan_of(Custom(input_chunks=sizes, output_chunks=sizes, promises=promises), [block(0, *doubled)])
    assert not verify(plan).ok
