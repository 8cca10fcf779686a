"""What each pass does, as text before and after, on the smallest program that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.algorithms.library import build
from hemiola.collectives import AllGather, AllReduce, Custom
from hemiola.compiler.compile import PASSES, compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.compiler.pipeline import Level
from hemiola.ir.chunk_dag import ChunkDag
from hemiola.ir.dag_text import level_text
from hemiola.ir.instruction_dag import InstructionDag
from hemiola.ir.plan import NO_LINE, NO_PEER, Rows
from hemiola.language.program import Program

Golden = Callable[[str, str], None]
Move = dict[str, int]
"""Threadblocks and channel of a copy, by the names of its arguments."""


def ring() -> Program:
    """All-reduce on three ranks, out of place, written chunk by chunk."""
    p = Program("ring", AllReduce(3, chunks=3))
    for rank in range(3):
        p.chunk(rank, "input", 0, 3).copy(rank, "output", 0)
    for start in range(3):
        c = p.chunk(start, "output", start)
        for hop in (1, 2):
            c = p.chunk((start + hop) % 3, "output", start).reduce(c)
        for hop in (3, 4):
            c = c.copy((start + hop) % 3)
    return p


def instances() -> Program:
    """A fragment in two parts between two copies that stay whole."""
    promises = {(0, 0): [(0, 0)]}
    p = Program("instances", Custom(input_chunks=[1, 0], output_chunks=[1, 0], promises=promises))
    c = p.chunk(0, "input", 0).copy(1, "tmp", 0)
    with p.parallelize(2):
        c = c.copy(1, "tmp", 1)
    c.copy(0, "output", 0)
    return p


def forwarded_elsewhere() -> Program:
    """What is sent on lies in another slot than what was received."""
    promises = {(1, 0): [(0, 0)], (2, 0): [(0, 0)]}
    p = Program("elsewhere", Custom(input_chunks=[1, 0, 0], output_chunks=[0, 1, 1], promises=promises))
    p.chunk(0, "input", 0).copy(1, "tmp", 0).copy(1, "output", 0).copy(2, "output", 0)
    return p


def two_ways_on() -> Program:
    """Rank 1 gets from rank 0 what goes to rank 2, and what goes to rank 3: one pair of peers stays fused."""
    promises = {(2, 0): [(0, 0)], (2, 1): [(0, 1)], (3, 0): [(0, 2)]}
    p = Program("ways", Custom(input_chunks=[3, 0, 0, 0], output_chunks=[0, 0, 2, 1], promises=promises))
    for index, (to, place) in enumerate(((2, 0), (2, 1), (3, 0))):
        p.chunk(0, "input", index).copy(1, "tmp", index).copy(to, "output", place)
    return p


def by_hand() -> Program:
    """Threadblocks and channels given by the program."""
    p = Program("hand", AllGather(2, in_place=True))
    p.chunk(0, "input", 0).copy(1, "output", 0, sendtb=4, recvtb=1, ch=1)
    p.chunk(1, "input", 0).copy(0, "output", 1, sendtb=0, recvtb=2)
    return p


def without_lines(dag: ChunkDag) -> ChunkDag:
    """Golden texts do not depend on where this file lies."""
    operations = dag.operations.copy()
    operations["line"] = NO_LINE
    return replace(dag, operations=operations, lines=())


PROGRAMS = (ring, instances, forwarded_elsewhere, two_ways_on, by_hand)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("slots", [1, 2])
def test_passes(program: Callable[[], Program], slots: int, golden: Golden) -> None:
    options = CompileOptions(slots=slots)
    level: Level = without_lines(program().finish())
    before = level_text(level)
    texts = [f"{program.__doc__}\n\n=== trace\n{before}"]
    for one in PASSES:
        level = one.apply(level, options)
        text = level_text(level)
        texts.append(f"=== {one.name}\n{'(no change)' if text == before else text}")
        before = text
    golden(f"passes/{program.__name__}_{slots}_slots.txt", "\n\n".join(texts) + "\n")


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("fuse", 24),
        ("order_operations", 15),
        ("forward_copies", 15),
        ("assign_threadblocks", 24),
        ("order_steps", 24),
    ],
)
def test_what_a_pass_is_good_for(name: str, steps: int) -> None:
    """A three-rank ring has 15 steps; without fusion every hop is two."""
    program = build("allreduce_ring", {"ranks": "3", "in_place": "true"})
    assert compile_program(program).plan.num_steps == 15
    disabled = CompileOptions(disabled=frozenset({name}))
    assert compile_program(program, disabled).plan.num_steps == steps


def test_without_instances_all_is_one() -> None:
    program = build("allreduce_ring", {"ranks": "3", "instances": "4", "in_place": "true"})
    assert compile_program(program).plan.num_channels == 4
    options = CompileOptions(disabled=frozenset({"replicate_instances"}))
    assert compile_program(program, options).plan.num_channels == 1
    options = CompileOptions(disabled=frozenset({"assign_channels"}))
    assert compile_program(program, options).plan.num_channels == 1


def test_out_of_place_costs_no_copy() -> None:
    """Copying the input first is free: the ring has as many steps as in place, none of them a copy."""
    arguments = {"ranks": "8"}
    plan = compile_program(build("allreduce_ring", arguments)).plan
    in_place = compile_program(build("allreduce_ring", {**arguments, "in_place": "true"})).plan
    assert plan.num_steps == in_place.num_steps


def test_a_ring_that_would_deadlock_at_one_slot_loses_one_fusion_a_turn() -> None:
    program = build("allreduce_ring", {"ranks": "8", "in_place": "true"})
    assert compile_program(program, CompileOptions(slots=2)).report.undone == {}
    assert compile_program(program, CompileOptions(slots=1)).report.undone == {"order_steps": 13}


def test_threadblocks_are_shared_only_where_a_limit_asks_for_it() -> None:
    program = build("alltoall_allpairs", {"ranks": "8"})
    free = compile_program(program).plan
    tight = compile_program(program, CompileOptions(max_threadblocks=8)).plan
    assert len(free.threadblocks) == 8 * 15
    assert len(tight.threadblocks) == 8 * 8


def test_the_order_of_the_program_is_kept_where_it_keeps_more_fused() -> None:
    """Sorted by depth, all laps of a ring would start at once and fill every slot."""
    program = build("reducescatter_hierarchical", {"levels": "4,4"})
    in_program_order = CompileOptions(disabled=frozenset({"order_operations"}))
    compiled = compile_program(program)
    assert compiled.plan.num_steps == compile_program(program, in_program_order).plan.num_steps
    assert next(record for record in compiled.report.passes if record.name == "order_operations").disabled


def one_way(moves: Sequence[Move], instances: int) -> Program:
    """Rank 0 sends a chunk to rank 1 for each move, by what the move says."""
    num = len(moves)
    promises = {(1, index): [(0, index)] for index in range(num)}
    p = Program("one way", Custom(input_chunks=[num, 0], output_chunks=[0, num], promises=promises))
    with p.parallelize(instances):
        for index, move in enumerate(moves):
            p.chunk(0, "input", index).copy(1, "output", index, **move)
    return p


def instructions_after(program: Program, name: str) -> Rows:
    """What a pass leaves, of instructions."""
    level: Level = program.finish()
    for one in PASSES:
        level = one.apply(level, CompileOptions())
        if one.name == name:
            assert isinstance(level, InstructionDag)
            return level.instructions
    raise AssertionError(name)


def connections(program: Program, key: Sequence[str]) -> dict[tuple[int, ...], set[tuple[int, ...]]]:
    """By source, destination and channel after assign_channels: what was asked for of the messages on it before."""
    before, after = instructions_after(program, "fuse"), instructions_after(program, "assign_channels")
    found: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for own, row in zip(before, after, strict=True):
        if row["send_peer"] != NO_PEER:
            ends = int(row["rank"]), int(row["send_peer"]), int(row["channel"])
            found.setdefault(ends, set()).add(tuple(int(own[name]) for name in key))
    return found


def check_ends(program: Program) -> None:
    """Every message has one channel at both ends, and those of a connection come in the order in which they went."""
    rows = instructions_after(program, "order_steps")
    sent: dict[tuple[int, ...], list[int]] = {}
    received: dict[tuple[int, ...], list[int]] = {}
    for row in rows:
        if row["send_peer"] != NO_PEER:
            ends = int(row["rank"]), int(row["send_peer"]), int(row["channel"])
            sent.setdefault(ends, []).append(int(row["send_operation"]))
        if row["recv_peer"] != NO_PEER:
            ends = int(row["recv_peer"]), int(row["rank"]), int(row["channel"])
            received.setdefault(ends, []).append(int(row["recv_operation"]))
    assert sent == received


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from([{}, {"ch": 0}, {"ch": 1}, {"ch": 2}]), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_channels_of_a_program_and_instances_never_meet(moves: list[Move], instances: int) -> None:
    """Channel 0 of instance 1 and channel 1 of instance 0 are two connections; only what was on one channel shares one."""
    program = one_way(moves, instances)
    asked = {max(move.get("ch", 0), 0) for move in moves}
    found = connections(program, ("channel", "instance"))
    merged = {ends: {(max(channel, 0), own) for channel, own in names} for ends, names in found.items()}
    assert all(len(names) == 1 for names in merged.values()), merged
    assert len(merged) == len(asked) * instances
    check_ends(program)
    plan = compile_program(program).plan
    sending = plan.threadblocks[plan.threadblocks["send_peer"] != NO_PEER]
    assert len(sending) == len(asked) * instances
    assert len(set(sending["channel"].tolist())) == len(sending)


@pytest.mark.parametrize("instances", [1, 2, 3])
@pytest.mark.parametrize("named", [(), (0,), (2,)])
def test_threadblocks_by_hand_on_one_pair_never_meet(named: tuple[int, ...], instances: int) -> None:
    """Each has a channel of its own, whether the program names the channels of some of them or of none."""
    moves: list[Move] = [{"sendtb": block, "recvtb": block} for block in range(3)]
    for block in named:
        moves[block]["ch"] = 1
    program = one_way([*moves, *moves], instances)
    found = connections(program, ("threadblock", "instance"))
    assert all(len(names) == 1 for names in found.values()), found
    assert len(found) == 3 * instances
    check_ends(program)
    assert compile_program(program).plan.num_channels >= 3 * instances


def test_threadblocks_by_hand_in_a_chain_of_pairs_never_meet() -> None:
    """What ties channels together across ranks does not make two threadblocks of one pair share one.

    Threadblock 0 of rank 1 receives from 0 and sends to 2, so both of its connections have one channel, which the other
    threadblocks of either pair must avoid.
    """
    promises = {(2, index): [(0, index)] for index in range(3)}
    p = Program("chain", Custom(input_chunks=[3, 0, 0], output_chunks=[0, 0, 3], promises=promises))
    for index in (2, 0, 1):
        between = p.chunk(0, "input", index).copy(1, "tmp", index, sendtb=index, recvtb=index)
        between.copy(2, "output", index, sendtb=index, recvtb=2 - index)
    found = connections(p, ("threadblock",))
    assert all(len(names) == 1 for names in found.values()), found
    assert len(found) == 6
    check_ends(p)
    assert compile_program(p).verdict.ok


def test_a_channel_that_is_free_on_one_pair_is_not_taken_from_another() -> None:
    """Threadblock 3 of rank 1 is on both pairs: 0 and 1 are taken on the second, 2 on the first, so 3 is the lowest."""
    promises = {(1, 0): [(0, 0)], (2, 0): [(1, 0)], (2, 1): [(1, 1)], (2, 2): [(0, 1)]}
    p = Program("gaps", Custom(input_chunks=[2, 2, 0], output_chunks=[0, 1, 3], promises=promises))
    p.chunk(0, "input", 0).copy(1, "output", 0, sendtb=0, recvtb=0, ch=2)
    for index in range(2):
        p.chunk(1, "input", index).copy(2, "output", index, sendtb=1 + index, recvtb=index)
    between = p.chunk(0, "input", 1).copy(1, "tmp", 0, sendtb=3, recvtb=3)
    between.copy(2, "output", 2, sendtb=3, recvtb=3)
    found = connections(p, ("threadblock",))
    assert found == {
        (0, 1, 2): {(0,)},
        (1, 2, 0): {(1,)},
        (1, 2, 1): {(2,)},
        (0, 1, 3): {(3,)},
        (1, 2, 3): {(3,)},
    }
    check_ends(p)
    assert compile_program(p).verdict.ok
