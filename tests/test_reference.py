"""The reference judge on plans whose verdicts are known, and its two ways held against each other."""

from __future__ import annotations

from random import Random

import pytest

import hand_made
from hand_made import INPUT, OUTPUT, SCRATCH, block, delivery, step
from hemiola.collectives import AllReduce, Broadcast, SendRecv
from hemiola.ir.plan import Plan
from interleavings import explore_values, run_stops, stops_somewhere
from mutations import DraftStep, mutate, pack, plan_of, unpack
from plan_network import Network, read_network
from reference import judge, judge_by_exploring, judge_by_order, one_order, unordered_conflicts

NO_LIMIT = 1_000_000
CORRECT = frozenset[str]()


def reasons(plan: Plan, slots: int = 2) -> frozenset[str]:
    """What is wrong, with both ways asked and agreeing."""
    by_order = judge(plan, slots, limit=0).reasons
    assert judge(plan, slots).reasons == by_order
    return by_order


@pytest.mark.parametrize("name", sorted(hand_made.everything()))
def test_hand_made_plans_are_correct(name: str) -> None:
    assert reasons(hand_made.everything()[name]) == CORRECT


def test_a_small_plan_is_explored() -> None:
    assert judge(hand_made.ring(3, fused=True), 2).explored
    assert not judge(hand_made.ring(3, fused=True), 2, limit=0).explored


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_an_unfused_ring_needs_one_slot(num_ranks: int) -> None:
    plan = hand_made.ring(num_ranks, fused=False)
    assert reasons(plan, 1) == CORRECT
    assert reasons(plan, 0) == {"deadlock"}


def test_a_fused_ring_needs_two_slots() -> None:
    plan = hand_made.ring(3, fused=True)
    assert reasons(plan, 1) == {"deadlock"}
    assert reasons(plan, 2) == CORRECT
    assert reasons(hand_made.ring(2, fused=True, count=2), 2) == {"deadlock"}
    assert reasons(hand_made.ring(2, fused=True, count=2), 3) == CORRECT


def test_a_long_send_before_the_receive_needs_a_slot_per_chunk() -> None:
    plan = hand_made.ring(2, fused=False, count=3)
    assert not run_stops(read_network(plan), 1, None)
    assert run_stops(read_network(plan), 2, 1)
    assert reasons(plan, 1) == reasons(plan, 2) == {"deadlock"}
    assert reasons(plan, 3) == CORRECT


def test_a_cyclic_exchange_needs_as_many_slots_as_messages() -> None:
    assert reasons(hand_made.exchange(2), 1) == {"deadlock"}
    assert reasons(hand_made.exchange(2), 2) == CORRECT


@pytest.mark.parametrize("slots", [0, 1, 2, 8, 19])
def test_exchanging_twenty_chunks_in_one_threadblock_stops(slots: int) -> None:
    assert reasons(hand_made.exchange(20), slots) == {"deadlock"}


def test_exchanging_twenty_chunks_runs_at_twenty_slots() -> None:
    assert reasons(hand_made.exchange(20), 20) == CORRECT
    assert reasons(hand_made.exchange(20, count=10), 19) == {"deadlock"}


@pytest.mark.parametrize("name", ["relay", "pairs3", "scratch", "chain", "next"])
def test_without_slots_a_send_ends_with_its_receive(name: str) -> None:
    assert reasons(hand_made.everything()[name], 0) == CORRECT


def test_without_slots_two_fused_steps_in_a_circle_run_when_one_end_only_receives() -> None:
    """Rank 1 takes the first message before it offers it back, so rank 0 is free to receive."""
    plan = plan_of(
        Broadcast(2, in_place=True),
        [block(0, step("s"), step("r"), to=1, source=1), block(1, step("rcs"), to=0, source=0)],
    )
    assert reasons(plan, 0) == CORRECT


def test_without_slots_messages_in_another_order_than_the_receives_stop() -> None:
    sends = [block(0, step("s"), step("nop", waits=[(1, 0)]), to=1), block(0, step("s"), to=1, channel=1)]
    receives = [
        block(1, step("r", waits=[(1, 0)]), source=0),
        block(1, step("r", target=(SCRATCH, 0)), source=0, channel=1),
    ]
    plan = plan_of(Broadcast(2, in_place=True), [*sends, *receives], scratch=1)
    assert reasons(plan, 0) == CORRECT
    sends[1].steps[0].waits.append((0, 0))
    late = plan_of(Broadcast(2, in_place=True), [block(0, step("s"), to=1), sends[1], *receives], scratch=1)
    assert reasons(late, 0) == {"deadlock"}
    assert reasons(late, 1) == CORRECT


def test_a_missing_dependency_is_a_race() -> None:
    assert reasons(hand_made.relay(waits=False)) == {"race"}


def test_two_copies_of_the_same_value_race_although_the_result_is_right() -> None:
    steps = step("cpy", (INPUT, 0), (OUTPUT, 0))
    plan = plan_of(AllReduce(1), [block(0, steps), block(0, steps)])
    assert reasons(plan) == {"race"}


def test_two_reads_do_not_race() -> None:
    steps = step("cpy", (INPUT, 0), (OUTPUT, 0)), step("cpy", (INPUT, 0), (SCRATCH, 0))
    assert reasons(plan_of(AllReduce(1), [block(0, steps[0]), block(0, steps[1])], scratch=1)) == CORRECT


def test_in_place_names_of_one_memory_race() -> None:
    copies = step("cpy", (INPUT, 0), (SCRATCH, 0)), step("cpy", (SCRATCH, 1), (OUTPUT, 0))
    blocks = [block(0, copies[0]), block(0, copies[1])]
    assert reasons(plan_of(AllReduce(1, in_place=True), blocks, scratch=2)) == {"race"}
    assert reasons(plan_of(AllReduce(1), blocks, scratch=2)) == {"postcondition"}


def test_slots_give_no_order() -> None:
    """At one slot the third send waits for the first receive, whose chunk a neighbour overwrites after it."""
    taking = [step("r", target=(SCRATCH, i)) for i in range(3)]
    giving = [step("s", (INPUT, 0)) for _ in range(3)]
    overwrite = step("cpy", (SCRATCH, 1), (INPUT, 0))
    plan = plan_of(
        SendRecv(2),
        [block(0, *giving, to=1), block(0, overwrite), block(1, *taking, source=0)],
        scratch=3,
    )
    assert "race" in reasons(plan, 1)


def test_a_wrong_offset_breaks_the_promise() -> None:
    right = [step("s", (INPUT, 0)), step("s", (INPUT, 1))]
    wrong = [step("s", (INPUT, 0)), step("s", (INPUT, 0))]
    receives = [step("r", target=(OUTPUT, 0)), step("r", target=(OUTPUT, 1))]
    assert reasons(delivery(*right, receives=receives)) == CORRECT
    assert reasons(delivery(*wrong, receives=receives)) == {"postcondition"}


def test_counting_a_contribution_twice_breaks_the_promise() -> None:
    draft = unpack(hand_made.sum_through_scratch())
    draft.blocks[2].steps.append(step("re", (SCRATCH, 0), (OUTPUT, 0)))
    assert reasons(pack(draft)) == {"postcondition"}


def test_garbage_breaks_the_promise_only_where_it_arrives() -> None:
    receives = [step("r", target=(OUTPUT, 0))]
    assert reasons(delivery(step("s", (SCRATCH, 0)), receives=receives)) == {"form"}
    garbage = step("cpy", (SCRATCH, 0), (SCRATCH, 1))
    sends = [block(0, garbage, step("s"), to=1), block(1, *receives, source=0)]
    assert reasons(plan_of(SendRecv(2), sends, scratch=2)) == CORRECT
    sends[0].steps[1].source = (SCRATCH, 1)
    assert reasons(plan_of(SendRecv(2), sends, scratch=2)) == {"postcondition"}


@pytest.mark.parametrize(
    ("sends", "receives"),
    [
        ([step("s", count=2)], [step("r", target=(OUTPUT, 0)), step("r", target=(OUTPUT, 1))]),
        ([step("s"), step("s", (INPUT, 1))], [step("r", target=(OUTPUT, 0), count=2)]),
        ([step("s")], [step("r", target=(OUTPUT, 0)), step("r", target=(OUTPUT, 1))]),
        ([step("s"), step("s", (INPUT, 1))], [step("r", target=(OUTPUT, 0))]),
        ([], [step("r", target=(OUTPUT, 0))]),
    ],
)
def test_messages_must_match(sends: list[DraftStep], receives: list[DraftStep]) -> None:
    assert reasons(delivery(*sends, receives=receives, collective=SendRecv(2, 2))) == {"connection"}


def test_a_connection_has_one_threadblock_at_each_end() -> None:
    ends = [block(0, step("s"), to=1), block(1, step("r", target=(OUTPUT, 0)), source=0)]
    assert reasons(plan_of(SendRecv(2), ends)) == CORRECT
    assert reasons(plan_of(SendRecv(2), [*ends, block(0, to=1)])) == {"connection"}
    assert reasons(plan_of(SendRecv(2), [*ends, block(1, source=0)])) == {"connection"}
    assert reasons(plan_of(SendRecv(2), [*ends, block(0, to=1, channel=1)])) == CORRECT


@pytest.mark.parametrize(
    "broken",
    [
        step("cpy", (INPUT, 2), (OUTPUT, 0)),
        step("cpy", (INPUT, 0), (OUTPUT, 1), count=2),
        step("cpy", (3, 0), (OUTPUT, 0)),
        step("cpy", (INPUT, 0), (OUTPUT, 0), count=0),
        step("cpy", (INPUT, 0), (OUTPUT, 0), waits=[(1, 0)]),
        step("cpy", (INPUT, 0), (OUTPUT, 0), waits=[(0, 1)]),
        step("s"),
        step("r"),
    ],
)
def test_broken_form(broken: DraftStep) -> None:
    assert reasons(plan_of(AllReduce(1, 2), [block(0, broken)])) == {"form"}


def test_ranges_that_overlap_in_part_are_broken_form() -> None:
    plan = plan_of(AllReduce(1, 3), [block(0, step("cpy", (INPUT, 0), (INPUT, 1), count=2))])
    assert reasons(plan) == {"form"}


def test_a_dependency_that_never_ends_stops() -> None:
    copy = step("cpy", (INPUT, 0), (OUTPUT, 0), waits=[(0, 0)])
    assert reasons(plan_of(AllReduce(1), [block(0, copy)])) == {"deadlock"}


def both_ways(network: Network, slots: int) -> tuple[frozenset[str], frozenset[str]]:
    return judge_by_exploring(network, slots, NO_LIMIT), judge_by_order(network, slots)


@pytest.mark.parametrize("seed", range(150))
def test_both_ways_agree_on_random_plans(seed: int) -> None:
    random = Random(seed)
    network = read_network(
        hand_made.random_plan(random, num_ranks=random.choice([2, 3]), num_messages=random.randrange(2, 6))
    )
    for slots in (0, 1, 2, 3):
        explored, ordered = both_ways(network, slots)
        assert explored == ordered


@pytest.mark.parametrize("name", sorted(hand_made.everything()))
def test_both_ways_agree_on_mutants(name: str) -> None:
    random = Random(name)
    for kind in ("remove_dependency", "swap_steps", "change_offset", "change_type", "change_count"):
        for _ in range(4):
            mutant = mutate(hand_made.everything()[name], kind, random)
            if mutant is not None:
                reasons(mutant, random.randrange(4))


@pytest.mark.parametrize("seed", range(150))
def test_races_are_those_pairs_that_are_ready_together(seed: int) -> None:
    """And a plan without a race ends in one memory, whatever the interleaving."""
    network = read_network(hand_made.random_plan(Random(1000 + seed)))
    if stops_somewhere(network, None, None, NO_LIMIT):
        return
    races = any(unordered_conflicts(network, one_order(network)))
    assert (explore_values(network, NO_LIMIT) is None) == races
    finals = explore_values(network, NO_LIMIT, stop_at_race=False)
    assert finals
    assert races or len(finals) == 1


def test_random_plans_are_of_all_sorts() -> None:
    """The two tests above compare more than one kind of verdict."""
    seen = {reason for seed in range(150) for reason in judge(hand_made.random_plan(Random(seed)), 1).reasons}
    assert seen == {"race", "deadlock", "postcondition"}
