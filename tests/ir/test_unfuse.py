"""Plans without fused operations do what the fused ones do, by the proof and by the slow reference judge."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given

import hand_made
from hemiola.collectives import AllReduce
from hemiola.ir.form import Owners, check_form
from hemiola.ir.formats.msccl_xml_read import parse_msccl_xml
from hemiola.ir.formats.msccl_xml_write import to_xml
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import Plan
from hemiola.ir.targets import AZURE_XML, MSCCL_XML, RCCL_XML, as_written, broken_limits
from hemiola.ir.unfuse import PLAIN, is_plain, unfuse
from hemiola.ir.verify import verify
from mutations import plan_of
from reference import judge
from strategies import plans
from subjects import library_plans

LENGTHS = {Opcode.RCS: 2, Opcode.RRS: 3, Opcode.RRC: 2, Opcode.RRCS: 3}
"""Parts of a step whose source and destination are in the same place in every call, or apart in every call."""


def test_library_plans_stay_correct() -> None:
    for name, plan in library_plans().items():
        plain, before, after = unfuse(plan), verify(plan, slots=2), verify(unfuse(plan), slots=2)
        assert is_plain(plain), name
        assert after.ok, name
        assert (before.same_expression, before.preserves_input) == (
            after.same_expression,
            after.preserves_input,
        )
        parts = [LENGTHS.get(Opcode(code), 1) for code in plan.steps["opcode"].tolist()]
        assert plain.num_steps == sum(parts), name


def test_the_reference_judge_agrees() -> None:
    for name, plan in hand_made.everything().items():
        assert judge(unfuse(plan), plan.protocol.slots).ok, name


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_are_right_or_wrong_as_before(seed: int) -> None:
    """A plan that ends and does not race does the same; taken apart it may only end where it did not."""
    random = Random(seed)
    plan = hand_made.promise_what_it_does(hand_made.random_plan(random, random.choice([2, 3]), 5))
    slots = random.choice([1, 2, 8])
    if judge(plan, slots).ok:
        assert judge(unfuse(plan), slots).ok
        assert verify(unfuse(plan), slots=slots).ok


@given(plans())
def test_any_plan_keeps_its_form(plan: Plan) -> None:
    plain = unfuse(plan)
    check_form(plain)
    assert is_plain(plain)
    assert unfuse(plain) is plain
    assert [len(plain.ranks), len(plain.threadblocks)] == [len(plan.ranks), len(plan.threadblocks)]
    assert len(plain.dependencies) == len(plan.dependencies)


def test_what_waits_waits_for_the_last_part() -> None:
    """On rank 1, a copy of what a fused threadblock stores and sends on."""
    plan = plan_of(
        AllReduce(3, 1, in_place=True),
        [
            hand_made.block(0, hand_made.step("s"), to=1),
            hand_made.block(1, hand_made.step("rrcs"), to=2, source=0),
            hand_made.block(1, hand_made.step("cpy", (0, 0), (2, 0), waits=[(0, 0)])),
            hand_made.block(2, hand_made.step("rrc"), source=1),
        ],
        scratch=1,
    )
    plain = unfuse(plan)
    names = [Opcode(code).name for code in plain.steps["opcode"].tolist()]
    assert names == ["S", "R", "RE", "S", "CPY", "R", "RE"]
    assert plain.dependencies.tolist() == [(0, 2)]
    assert plain.ranks["scratch_chunks"].tolist() == [1, 2, 2]
    owners = Owners(plain)
    assert owners.num_dependencies.tolist() == [0, 0, 0, 0, 1, 0, 0]


def test_a_plan_for_both_places_keeps_them() -> None:
    """In place, source and destination of its sums are the same memory, out of place they are not."""
    steps = (hand_made.step("s"), hand_made.step("rrc", (0, 0), (1, 0)))
    blocks = [hand_made.block(rank, *steps, to=1 - rank, source=1 - rank) for rank in (0, 1)]
    plan = replace(plan_of(AllReduce(2), blocks), both_places=True)
    assert verify(plan).ok
    plain = unfuse(plan)
    assert verify(plain).ok
    assert [Opcode(code).name for code in plain.steps["opcode"][:4].tolist()] == ["S", "R", "RE", "CPY"]
    for place in (True, False):
        assert judge(plain.for_place(in_place=place), 2).ok


def test_only_rccl_takes_files_apart() -> None:
    plan = hand_made.ring(4, fused=True)
    for target, is_apart in ((RCCL_XML, True), (MSCCL_XML, False), (AZURE_XML, False)):
        written = as_written(plan, target)
        assert is_plain(written) is is_apart
        assert broken_limits(written, target) == []
        again = parse_msccl_xml(to_xml(plan, target).encode())
        assert np.isin(again.steps["opcode"], [int(code) for code in PLAIN]).all() == is_apart
        assert verify(again, slots=2).ok
