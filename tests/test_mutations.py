"""Mutants of correct plans: the proof and the slow reference judge say the same of every one."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

import hand_made
from campaign import run_campaign
from hand_made import INPUT, OUTPUT, block, step
from hemiola.collectives import AllGather, AllReduce
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan
from hemiola.ir.verify import verify
from hemiola.ir.verify_sizes import verify_sizes
from mutations import KINDS, fingerprint, mutate, pack, plan_of, unpack
from plan_network import BrokenError, read_network
from reference import judge
from subjects import all_plans, size_plans

MANY = 1000
FEW = 200


@cache
def subjects() -> dict[str, Plan]:
    return all_plans()


def accepts(plan: Plan, slots: int) -> bool:
    return verify(plan, slots=slots).ok


def hangs_by_proof(plan: Plan, runtime: str, num_bytes: int) -> bool | None:
    sized = verify_sizes(plan, runtime)
    return sized.hangs_at(num_bytes) if sized.windows else None


def test_the_unchanged_plans_are_correct_by_both_judges() -> None:
    for name, plan in subjects().items():
        assert judge(plan, plan.protocol.slots).ok, name
        assert verify(plan).ok, name


@pytest.mark.parametrize("kind", KINDS)
def test_few_mutants(kind: str) -> None:
    tally = run_campaign(subjects() | size_plans(), kind, FEW, accepts, hangs_by_proof)
    assert tally.made == FEW
    assert not tally.disagreements


def test_sizes_decide_about_some_mutants() -> None:
    """Otherwise the campaign would say nothing about sizes."""
    tally = run_campaign(size_plans(), "swap_steps", FEW, accepts, hangs_by_proof)
    assert not tally.disagreements
    assert tally.hanging >= 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_mutants(kind: str) -> None:
    tally = run_campaign(subjects() | size_plans(), kind, MANY, accepts, hangs_by_proof)
    assert tally.made == MANY
    assert not tally.disagreements


def failing(plan: Plan, slots: int) -> set[str]:
    """What the proof has against a plan, in the words of the reference judge."""
    return {failure.kind.name.lower() for failure in verify(plan, slots=slots).failures}


@pytest.mark.parametrize("seed", range(60))
def test_random_plans(seed: int) -> None:
    """Not only the verdict agrees, but also what it rests on."""
    random = Random(seed)
    for _ in range(10):
        num_ranks, num_messages = random.choice([2, 3]), random.randrange(1, 7)
        collective = random.choice([AllReduce, AllGather])(num_ranks, 3, in_place=random.random() < 0.5)
        plan = hand_made.random_plan(random, num_ranks, num_messages, collective=collective)
        slots = random.randrange(4)
        found, expected = failing(plan, slots), judge(plan, slots).reasons
        assert bool(found) == bool(expected)
        assert found - {"postcondition"} == expected - {"postcondition"}


def test_random_plans_that_keep_their_promises() -> None:
    """Plans that race or stop or neither, but never compute anything else than promised."""
    random, correct = Random(0), 0
    for _ in range(300):
        num_ranks, num_messages = random.choice([2, 3, 4]), random.randrange(1, 5)
        plan = hand_made.promise_what_it_does(hand_made.random_plan(random, num_ranks, num_messages))
        slots = random.randrange(4)
        assert accepts(plan, slots) == judge(plan, slots).ok
        correct += judge(plan, slots).ok
    assert 50 < correct < 250


def test_unpacking_and_packing_changes_nothing() -> None:
    for name, plan in subjects().items():
        assert fingerprint(pack(unpack(plan))) == fingerprint(plan), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutation_changes_the_plan_and_keeps_its_tables_consistent(kind: str) -> None:
    for name, plan in hand_made.everything().items():
        for turn in range(10):
            mutant = mutate(plan, kind, Random(turn))
            if mutant is None:
                continue
            assert fingerprint(mutant) != fingerprint(plan), name
            assert [len(mutant.threadblocks), len(mutant.ranks)] == [len(plan.threadblocks), len(plan.ranks)]
            rows = [row for number in range(len(mutant.threadblocks)) for row in mutant.steps_of(number)]
            assert rows == list(range(len(mutant.steps)))
            held = [dependency for row in rows for dependency in mutant.dependencies_of(row)]
            assert held == list(range(len(mutant.dependencies)))


def test_a_plan_without_dependencies_cannot_lose_one() -> None:
    assert mutate(hand_made.ring(2, fused=True), "remove_dependency", Random(0)) is None


def test_the_same_random_numbers_give_the_same_mutant() -> None:
    plan = hand_made.sum_through_scratch()
    for kind in KINDS:
        one, other = (mutate(plan, kind, Random(7)) for _ in range(2))
        assert one is not None
        assert other is not None
        assert fingerprint(one) == fingerprint(other)


def test_who_waits_for_a_dropped_step_waits_for_the_one_before() -> None:
    copies = [step("cpy", (INPUT, i), (OUTPUT, i)) for i in range(3)]
    waiting = [step("nop", count=0, waits=[(0, i)]) for i in range(3)]
    plan = plan_of(AllReduce(1, 3), [block(0, *copies), block(0, *waiting)])
    seen = set()
    for turn in range(200):
        mutant = mutate(plan, "drop_step", Random(turn))
        assert mutant is not None
        if mutant.steps_of(0) == range(2):
            seen.add(tuple(tuple(sorted(one.waits)) for one in unpack(mutant).blocks[1].steps))
    first, second, third = (
        ((), ((0, 0),), ((0, 1),)),
        (((0, 0),), ((0, 0),), ((0, 1),)),
        (((0, 0),), ((0, 1),), ((0, 1),)),
    )
    dangling = (((0, 0),), ((0, 1),), ((0, 2),))
    assert {first, second, third, dangling} <= seen


def test_a_change_of_type_leaves_no_unused_field_behind() -> None:
    plan = hand_made.sum_through_scratch()
    for turn in range(100):
        mutant = mutate(plan, "change_type", Random(turn))
        assert mutant is not None
        for one in (one for changed in unpack(mutant).blocks for one in changed.steps):
            traits = TRAITS[one.opcode]
            assert traits.reads_source or one.source == (0, 0)
            assert traits.writes_destination or one.target == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_not_every_mutant_is_refused_for_its_form(kind: str) -> None:
    """Otherwise the kind would say nothing about the proof itself."""
    mutants = [
        mutate(plan, kind, Random(turn)) for plan in hand_made.everything().values() for turn in range(10)
    ]
    assert sum(_runs(mutant) for mutant in mutants if mutant is not None) >= 5


def _runs(plan: Plan) -> bool:
    try:
        read_network(plan)
    except BrokenError:
        return False
    return True
