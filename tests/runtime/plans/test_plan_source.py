"""Requests, digests, chains of sources, and the default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hand_made import block, ring, step
from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import Buffer, CollectiveKind, Custom
from hemiola.compiler.compile import compile_program
from hemiola.errors import CollectiveError, RunError
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import Plan, Protocol, Rows
from hemiola.ir.verdict import FailureKind
from hemiola.ir.verify import verify
from hemiola.runtime import default_source
from hemiola.runtime.default_source import provide_default
from hemiola.runtime.plans.demands import moves_directly, unmet_demand
from hemiola.runtime.plans.judge import SLOTS, judge
from hemiola.runtime.plans.plan_source import (
    ChainedPlans,
    Choice,
    Explanation,
    PlanRequest,
    Refusal,
    default_plans,
    no_plan,
    plan_digest,
)
from mutations import plan_of

REQUEST = PlanRequest(CollectiveKind.ALLREDUCE, 2, (0, 0), 1024, in_place=True)


class OnePlan:
    """A source that has a plan for the sizes up to a limit, and counts how often it is asked."""

    def __init__(self, name: str, max_bytes: int) -> None:
        plan = replace(ring(2, fused=True), name=name)
        self.choice = Choice(plan, plan_digest(plan), f"up to {max_bytes}")
        self.max_bytes = max_bytes
        self.asked = 0

    def choose(self, request: PlanRequest) -> Choice:
        self.asked += 1
        explanation = self.explain(request)
        if explanation.chosen is None:
            raise no_plan(explanation)
        return explanation.chosen

    def explain(self, request: PlanRequest) -> Explanation:
        if request.num_bytes > self.max_bytes:
            return Explanation(request, None, (Refusal(self.choice.plan.name, "too large"),))
        return Explanation(request, self.choice, ())


def built(name: str, **parameters: object) -> Plan:
    return compile_program(ALGORITHMS[name].build(**parameters)).plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "allsum"}, "there is no collective 'allsum'"),
        ({"kind": "custom"}, r"cannot be asked for by its kind; run its plan with Communicator\.run"),
        ({"num_ranks": 3}, "hosts has the host of every rank: 3 were expected, 2 found"),
        ({"num_bytes": -1}, "allreduce was asked for -1 bytes"),
        ({"kind": "broadcast", "root": 2}, "root 2 of broadcast is not one of 2 ranks"),
        ({"kind": "alltonext"}, "alltonext has no in-place form"),
    ],
)
def test_a_contradictory_request_is_explained(change: dict[str, object], message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        replace(REQUEST, **change).collective()  # type: ignore[arg-type]


def test_a_request_reads_as_a_question() -> None:
    assert str(REQUEST) == "allreduce of 2 ranks on 1 host, 1KiB, in place"
    asked = PlanRequest(CollectiveKind.SENDRECV, 3, (0, 0, 1), 0, False, root=2, peer=1, same_expression=True)
    assert str(asked) == (
        "sendrecv of 3 ranks on 2 hosts, 0B, out of place, from rank 2 to rank 1, the same bits on all ranks"
    )
    assert str(replace(REQUEST, kind=CollectiveKind.REDUCE, root=1)).endswith("in place, root 1")
    assert "uneven shares" in str(replace(REQUEST, kind=CollectiveKind.ALLTOALL, uneven=True))


def test_an_explanation_is_an_aligned_table() -> None:
    first = OnePlan("ring", 1024)
    text = str(Explanation(REQUEST, first.choice, (Refusal("a_longer_name", "because"),)))
    assert text.splitlines() == [
        str(REQUEST),
        "  yes  ring           up to 1024",
        "  no   a_longer_name  because",
    ]
    assert str(Explanation(REQUEST, None, ())) == f"{REQUEST}: no plan"


def test_the_digest_says_what_runs_and_nothing_else() -> None:
    plan = built("allreduce_ring", ranks=3)
    same = replace(plan, name="other", lines=(), min_bytes=7, max_bytes=9)
    moved = plan.steps.copy()
    moved["line"] += 1
    assert plan_digest(plan) == plan_digest(same) == plan_digest(replace(plan, steps=moved))
    assert len(plan_digest(plan)) == 32


def test_the_digest_sees_every_change_of_what_runs() -> None:
    plan = built("allreduce_one_step", ranks=3)
    changed = [plan, replace(plan, protocol=Protocol.LL), plan.for_place(in_place=True)]
    for promises in ({}, {(0, 0): [(1, 0)]}):
        custom = Custom(input_chunks=[1] * 3, output_chunks=[1] * 3, promises=promises)
        changed.append(replace(plan, collective=custom))
    tables = ("ranks", "threadblocks", "steps", "dependencies")
    changed += [change for table in tables for change in changes_of(plan, table)]
    assert len({plan_digest(one) for one in changed}) == len(changed) > 20


def changes_of(plan: Plan, table: str) -> Iterator[Plan]:
    """The plan with one more in each field of the last row of a table, and with that row twice."""
    rows: Rows = getattr(plan, table)
    for name in rows.dtype.names or ():
        if name != "line":
            changed = rows.copy()
            changed[name][-1] += 1
            yield with_table(plan, table, changed)
    yield with_table(plan, table, np.concatenate([rows, rows[-1:]]))


def with_table(plan: Plan, table: str, rows: Rows) -> Plan:
    changes: dict[str, Any] = {table: rows}
    return replace(plan, **changes)


def test_the_first_source_that_has_a_plan_wins() -> None:
    small, large = OnePlan("small", 1024), OnePlan("large", 1 << 20)
    plans = ChainedPlans([small, large])
    assert plans.choose(REQUEST) is small.choice
    assert plans.choose(replace(REQUEST, num_bytes=4096)) is large.choice


def test_a_chain_remembers_its_choices() -> None:
    small, large = OnePlan("small", 1024), OnePlan("large", 1 << 20)
    plans = ChainedPlans([small, large])
    assert len({id(plans.choose(replace(REQUEST, num_bytes=4096))) for _ in range(10)}) == 1
    assert (small.asked, large.asked) == (1, 1)


def test_a_chain_explains_all_its_sources() -> None:
    plans = ChainedPlans([OnePlan("tiny", 8), OnePlan("small", 1024), OnePlan("large", 1 << 20)])
    explanation = plans.explain(REQUEST)
    assert explanation.chosen is plans.choose(REQUEST)
    assert explanation.others == (
        Refusal("tiny", "too large"),
        Refusal("large", "small is of a source before it"),
    )


def test_a_chain_without_a_plan_says_what_all_sources_say() -> None:
    plans = ChainedPlans([OnePlan("tiny", 8), OnePlan("small", 16)])
    with pytest.raises(
        RunError, match=r"no plan for allreduce .* \(tiny: too large \| small: too large\); give"
    ):
        plans.choose(REQUEST)
    with pytest.raises(RunError, match="there are no candidates"):
        ChainedPlans([]).choose(REQUEST)


def test_the_default_is_made_once_when_it_is_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_source, "_factories", [])
    with pytest.raises(RunError, match=r"no source of plans was provided; import hemiola, or .* plans="):
        default_plans()
    made: list[OnePlan] = []

    def factory(slots: int) -> OnePlan:
        made.append(OnePlan("only", 8))
        return made[-1]

    provide_default(factory)
    assert not made
    assert default_plans() is default_plans()
    assert len(made) == 1


def test_only_direct_plans_move_uneven_shares() -> None:
    assert moves_directly(built("alltoall_allpairs", ranks=4))
    assert moves_directly(built("gather_direct", ranks=3, root=1))
    for name in ("alltoall_two_step", "alltoall_three_step"):
        assert not moves_directly(built(name, ranks=4, levels=(2, 2)))
    assert not moves_directly(built("alltoall_allpairs", ranks=4, in_place=True))
    assert not moves_directly(built("allgather_ring", ranks=3))
    assert not moves_directly(built("reducescatter_allpairs", ranks=3))


def test_a_plan_that_writes_its_input_is_not_for_out_of_place_calls() -> None:
    plan = built("alltoall_allpairs", ranks=2)
    verdict = replace(judge(plan), preserves_input=False)
    request = PlanRequest(CollectiveKind.ALLTOALL, 2, (0, 0), 8, in_place=False)
    assert unmet_demand(plan, judge(plan), request) is None
    assert unmet_demand(plan, verdict, request) == "it writes the input of an out-of-place call"


def exchange(messages: int, count: int) -> Plan:
    """Two ranks that each send all their messages before they receive any: it needs a slot for each."""
    chunks = messages * count
    blocks = [
        block(
            rank,
            *(step("s", (Buffer.INPUT, index), count=count) for index in range(0, chunks, count)),
            *(step("r", target=(Buffer.OUTPUT, index), count=count) for index in range(0, chunks, count)),
            to=1 - rank,
            source=1 - rank,
        )
        for rank in range(2)
    ]
    promises = {(rank, index): [(1 - rank, index)] for rank in range(2) for index in range(chunks)}
    return plan_of(Custom(input_chunks=[chunks] * 2, output_chunks=[chunks] * 2, promises=promises), blocks)


@pytest.mark.parametrize(
    ("opcode", "field", "buffer"),
    [
        (Opcode.S, "src_buffer", Buffer.OUTPUT),
        (Opcode.S, "src_buffer", Buffer.SCRATCH),
        (Opcode.R, "dst_buffer", Buffer.INPUT),
        (Opcode.R, "dst_buffer", Buffer.SCRATCH),
    ],
)
def test_one_detour_is_enough_to_be_indirect(opcode: Opcode, field: str, buffer: Buffer) -> None:
    plan = exchange(2, count=1)
    assert moves_directly(plan)
    steps = plan.steps.copy()
    steps[field][np.flatnonzero(steps["opcode"] == opcode)[-1]] = buffer
    assert not moves_directly(replace(plan, steps=steps))


def test_a_message_takes_one_slot_whatever_its_count() -> None:
    plan = exchange(SLOTS, count=3)
    assert not verify(plan, slots=SLOTS).ok
    assert judge(plan).ok
    assert judge(plan).slots == SLOTS


@pytest.mark.parametrize("count", [1, 3])
def test_a_plan_that_needs_more_slots_is_refused(count: int) -> None:
    plan = exchange(SLOTS + 1, count)
    assert judge(plan, slots=SLOTS + 1).ok
    (failure,) = judge(plan).failures
    assert failure.kind is FailureKind.DEADLOCK


def test_other_faults_are_not_forgiven() -> None:
    plan = exchange(SLOTS, count=3)
    steps = plan.steps.copy()
    steps["dst_index"][-1] = 0
    kinds = {failure.kind for failure in judge(replace(plan, steps=steps)).failures}
    assert FailureKind.POSTCONDITION in kinds
