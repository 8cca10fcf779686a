"""Every law of a plan's form, with the sentence that says which step breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from hemiola.collectives import AllGather, AllReduce, Buffer
from hemiola.errors import PlanError
from hemiola.ir.form import check_form, first_fault, reachable_chunks
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK, Plan, Protocol
from strategies import plans


def exchange() -> Plan:
    """Two ranks; each sends its input in one threadblock and receives in another, which waits for it."""
    ranks = np.array([(2, 2, 1, 0), (2, 2, 1, 2)], RANK)
    blocks = np.array([(0, 1, -1, 0, 0), (0, -1, 1, 0, 1), (1, 0, -1, 0, 3), (1, -1, 0, 0, 4)], THREADBLOCK)
    steps = np.zeros(6, STEP)
    steps["opcode"] = [Opcode.S, Opcode.R, Opcode.CPY] * 2
    steps["count"] = 2
    steps["dst_buffer"] = [0, 1, 1] * 2
    steps["first_dependency"] = [0, 0, 0, 1, 1, 1]
    return Plan(
        "exchange", AllReduce(2, 2), Protocol.SIMPLE, ranks, blocks, steps,
        np.array([(0, 0), (0, 0)], DEPENDENCY), lines=("a.py:1",),
    )  # fmt: skip


def set_to(table: str, field: str, row: int, value: int) -> Callable[[Plan], None]:
    def change(plan: Plan) -> None:
        getattr(plan, table)[field][row] = value

    return change


BROKEN = [
    (set_to("ranks", "first_threadblock", 0, 1), "the first of the threadblocks is 1, but must be 0"),
    (set_to("ranks", "first_threadblock", 1, 5), "row 1 of the ranks begins at 5 of 4 threadblocks"),
    (set_to("threadblocks", "first_step", 1, 4), "row 1 of the threadblocks begins at 4 of 6 steps"),
    (
        set_to("threadblocks", "first_step", 3, 2**32 - 1),
        "row 3 of the threadblocks begins at 4294967295 of 6",
    ),
    (set_to("steps", "first_dependency", 5, 3), "row 5 of the steps begins at 3 of 2 dependencies"),
    (set_to("threadblocks", "rank", 2, 0), "row 2 of the threadblocks says rank 0, but belongs to rank 1"),
    (set_to("ranks", "input_chunks", 1, 1), "rank 1: the input has 1 chunks, but allreduce needs 2"),
    (set_to("ranks", "output_chunks", 0, 0), "rank 0: the output has 0 chunks, but allreduce needs 2"),
    (
        set_to("threadblocks", "send_peer", 0, 2),
        "rank 0, threadblock 0: sends to rank 2, but only another rank of 2",
    ),
    (set_to("threadblocks", "send_peer", 0, 0), "rank 0, threadblock 0: sends to rank 0"),
    (set_to("threadblocks", "recv_peer", 3, -2), "rank 1, threadblock 1: receives from rank -2"),
    (set_to("threadblocks", "channel", 3, 2**31), "rank 1, threadblock 1: is on channel 2147483648"),
    (set_to("steps", "opcode", 4, 9), "rank 1, threadblock 1, step 0: has opcode 9, but opcodes end at 8"),
    (set_to("steps", "dst_buffer", 0, 3), "rank 0, threadblock 0, step 0: has dst_buffer 3"),
    (set_to("steps", "count", 2, 0), "rank 0, threadblock 1, step 1: has count 0"),
    (set_to("steps", "src_index", 0, 1), r"step 0: reads input\[1:3\], but input has 2 chunks"),
    (
        set_to("steps", "src_index", 0, 2**32 - 1),
        r"reads input\[4294967295:4294967297\], but input has 2 chunks",
    ),
    (set_to("steps", "dst_index", 1, 1), r"step 0: writes output\[1:3\], but output has 2 chunks"),
    (
        set_to("threadblocks", "send_peer", 0, -1),
        "threadblock 0, step 0: sends, but its threadblock has no send_peer",
    ),
    (set_to("threadblocks", "recv_peer", 1, -1), "threadblock 1, step 0: receives, but its .* no recv_peer"),
    (set_to("steps", "line", 1, 2), "step 0: comes from line 2 of a table of 1 lines"),
    (set_to("dependencies", "threadblock", 1, 2), "rank 1, .* waits for threadblock 2, but the rank has 2"),
    (set_to("dependencies", "step", 0, 1), "waits for step 1 of threadblock 0, which has 1 steps"),
]


def test_a_plan_in_form_passes() -> None:
    check_form(exchange())


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_a_broken_law_is_named(change: Callable[[Plan], None], message: str) -> None:
    plan = exchange()
    change(plan)
    with pytest.raises(PlanError, match=message):
        check_form(plan)


def test_a_step_waits_for_its_own_threadblock_only_backwards() -> None:
    plan = exchange()
    plan.dependencies[0] = (1, 0)
    check_form(plan)
    plan.dependencies[0] = (1, 1)
    with pytest.raises(
        PlanError, match="step 1: waits for step 1 of its own threadblock, which cannot come first"
    ):
        check_form(plan)


def test_source_and_destination_overlap_wholly_or_not_at_all() -> None:
    plan = exchange()
    plan.ranks["scratch_chunks"] = 3
    plan.steps["src_buffer"][2] = plan.steps["dst_buffer"][2] = Buffer.SCRATCH
    check_form(plan)
    plan.steps["src_index"][2] = 1
    with pytest.raises(PlanError, match="reads 2 chunks and writes as many that overlap them in part"):
        check_form(plan)


def test_the_number_of_ranks_is_the_collectives() -> None:
    with pytest.raises(PlanError, match="the plan has 2 ranks, but its collective has 3"):
        check_form(replace(exchange(), collective=AllReduce(3, 2)))


def test_children_without_parents_are_named() -> None:
    plan = replace(exchange(), threadblocks=np.empty(0, THREADBLOCK))
    plan.ranks["first_threadblock"] = 0
    with pytest.raises(PlanError, match="there are 6 steps, but no threadblocks that they belong to"):
        check_form(plan)


def test_in_place_the_aliased_buffer_is_a_window_of_the_other() -> None:
    ranks = np.array([(0, 6, 0, 0), (0, 6, 0, 0), (0, 6, 0, 0)], RANK)
    empty = (np.empty(0, THREADBLOCK), np.empty(0, STEP), np.empty(0, DEPENDENCY))
    plan = Plan("gather", AllGather(3, 2, in_place=True), Protocol.LL, ranks, *empty)
    check_form(plan)
    assert reachable_chunks(plan).tolist() == [[2, 6, 0]] * 3
    ranks["output_chunks"][2] = 5
    fault = first_fault(plan)
    assert fault is not None
    assert fault.message == "rank 2: the input has 1 chunks, but allgather needs 2"


@given(plans())
def test_well_formed_plans_pass(plan: Plan) -> None:
    assert first_fault(plan) is None
