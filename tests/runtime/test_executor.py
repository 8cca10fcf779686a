"""The executor against the reference interpreter: random verified plans, every chunk that has a known value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, assume, given, settings

import hand_made
from chunk_programs import chunk_programs
from hemiola.collectives import Buffer, Custom
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.ir.plan import Plan
from hemiola.language.program import Program
from hemiola.runtime.checking.check import Wrong, expect
from hemiola.runtime.checking.trial import Trial
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.plans.judge import judge
from hemiola.runtime.settings import Settings
from mutations import plan_of
from plan_network import Cell, Value, read_network
from reference import one_order, run_values
from runtime.worlds import on_ranks
from subjects import library_plans, random_plans

Numbers = npt.NDArray[np.int64]
Buffers = tuple[Numbers, Numbers]

MANY = 40
"""Random plans of each source in the usual run; the slow one has ten times as many."""
quietly = settings(
    deadline=None,
    max_examples=MANY,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
slowly = settings(quietly, max_examples=10 * MANY)


@st.composite
def machines(draw: st.DrawFn) -> Settings:
    """Few and small slots, small tiles, several workers."""
    return Settings(
        slots=draw(st.integers(2, 8)),
        slot_bytes=draw(st.sampled_from([64, 64, 128, 1024])),
        tile_bytes=draw(st.sampled_from([0, 0, 8, 40, 64, 100])),
        workers=draw(st.integers(1, 3)),
        spins=draw(st.sampled_from([0, 20, 1000])),
        yield_seconds=draw(st.sampled_from([0.0, 0.001])),
        timeout=60,
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Settings, int]:
    """A machine and the length of a chunk; half of them with messages that are large enough to be passed on."""
    machine = draw(machines())
    if draw(st.booleans()):
        return machine, draw(st.one_of(st.integers(0, 3), st.integers(0, 200)))
    return replace(machine, slot_bytes=32 << 10, tile_bytes=0), draw(st.integers(900, 5000))


@dataclass(frozen=True, slots=True)
class Interpreted:
    """What the reference says of a plan: per cell, which input chunks it holds, and how often each."""

    plan: Plan
    memory: Mapping[Cell, Value]

    @staticmethod
    def of(plan: Plan) -> Interpreted:
        network = read_network(plan)
        return Interpreted(plan, run_values(network, one_order(network)))

    def check(self, rank: int, buffers: Buffers, share: int) -> list[str]:
        """The chunks of a rank's buffers that hold something else."""
        wrong = []
        for (owner, buffer, index), value in self.memory.items():
            if owner != rank or buffer == Buffer.SCRATCH or value is None:
                continue
            found = buffers[buffer][index * share : (index + 1) * share]
            expected = np.zeros(share, np.int64)
            for (origin, chunk), times in value:
                expected += times * data_of(origin, chunk, share)
            if not np.array_equal(found, expected):
                wrong.append(f"rank {rank}, {Buffer(buffer).name} chunk {index}: {found} is not {expected}")
        return wrong


def data_of(rank: int, chunk: int, share: int) -> Numbers:
    """An input chunk: numbers of all sizes, whose sums wrap now and then."""
    return np.random.default_rng((rank, chunk)).integers(-(2**63), 2**63 - 1, share, np.int64)


def buffers_of(plan: Plan, rank: int, share: int) -> Buffers:
    """Memory as the plan stores it, the input laid; in place, both are the same array."""
    collective = plan.collective
    inputs, outputs = (int(sizes[rank]) for sizes in collective.named_chunks())
    given_ = [data_of(rank, chunk, share) for chunk in range(inputs)]
    input_ = np.concatenate([*given_, np.empty(0, np.int64)])
    output = input_ if collective.in_place else np.full(outputs * share, -1, np.int64)
    return input_, output


def check_plan(plan: Plan, machine: Settings, share: int) -> None:
    """Run a custom plan and compare all its memory with the reference."""
    interpreted = Interpreted.of(plan)

    def body(world: Communicator) -> list[str]:
        wrong = []
        for _ in range(2):
            buffers = buffers_of(plan, world.rank, share)
            world.run(plan, *buffers)
            wrong += interpreted.check(world.rank, buffers, share)
            world.barrier()
        return wrong

    found = on_ranks(plan.num_ranks, body, settings=machine)
    assert not any(found), "\n".join(sentence for rank in found for sentence in rank)


def fits(plan: Plan, machine: Settings) -> bool:
    """Whether the machine may run the plan: its longest message has a place, and its slots are enough."""
    longest = int(plan.steps["count"].max(initial=0))
    return longest * 8 <= machine.slot_bytes and judge(plan, slots=machine.slots).ok


def check_expected(plan: Plan, trial: Trial, machine: Settings) -> None:
    """Run a plan of a known collective and check what it promises."""

    def body(world: Communicator) -> Wrong | None:
        buffers = trial.make_buffers(world.rank)
        trial.fill(world.rank, buffers)
        world.run(plan, buffers.input, buffers.output)
        return expect(trial, world.rank).check_output(buffers.output)

    assert [wrong for wrong in on_ranks(plan.num_ranks, body, settings=machine) if wrong is not None] == []


def check_program(program: Program, options: CompileOptions, machine: Settings, share: int) -> None:
    plan = compile_program(program, options).plan
    for in_place in (False, True) if plan.both_places else (plan.collective.in_place,):
        placed = plan.for_place(in_place=in_place) if plan.both_places else plan
        assume(fits(placed, machine))
        check_plan(placed, machine, share)


compiled = st.builds(
    CompileOptions,
    slots=st.integers(1, 2),
    disabled=st.sampled_from(
        [frozenset[str](), frozenset({"fuse"}), frozenset({"drop_redundant_dependencies"})]
    ),
)


@quietly
@given(chunk_programs(), compiled, cases())
def test_compiled_programs_do_what_the_reference_does(
    program: Program, options: CompileOptions, case: tuple[Settings, int]
) -> None:
    check_program(program, options, *case)


@pytest.mark.slow
@slowly
@given(chunk_programs(), compiled, cases())
def test_many_compiled_programs_do_what_the_reference_does(
    program: Program, options: CompileOptions, case: tuple[Settings, int]
) -> None:
    check_program(program, options, *case)


RANDOM_PLANS = random_plans(30)


@quietly
@given(st.sampled_from(sorted(RANDOM_PLANS)), cases())
def test_random_plans_do_what_the_reference_does(name: str, case: tuple[Settings, int]) -> None:
    """Plans of random steps by hand: every opcode, counts of two, waits between threadblocks."""
    plan, (machine, share) = RANDOM_PLANS[name], case
    assume(fits(plan, machine))
    check_plan(plan, machine, share)


@pytest.mark.slow
@slowly
@given(st.integers(0, 2**32), cases())
def test_many_random_plans_do_what_the_reference_does(seed: int, case: tuple[Settings, int]) -> None:
    random, (machine, share) = Random(seed), case
    plan = hand_made.random_plan(random, random.choice([2, 3, 4]), random.randrange(3, 9))
    plan = hand_made.promise_what_it_does(plan)
    assume(plan.collective.kind == "custom" and fits(plan, machine))
    check_plan(plan, machine, share)


LIBRARY_PLANS = {name: plan for name, plan in library_plans().items() if not plan.both_places}


@quietly
@given(
    st.sampled_from(sorted(LIBRARY_PLANS)), machines(), st.one_of(st.integers(0, 40), st.integers(0, 5000))
)
def test_shares_that_do_not_divide_into_chunks_are_whole(name: str, machine: Settings, share: int) -> None:
    """Plans that cut a share into several chunks, on sizes that leave a rest, through slots of a line."""
    plan = LIBRARY_PLANS[name]
    assume(fits(plan, machine))
    check_expected(plan, Trial(plan.collective, share, "int64", "sum"), machine)


@pytest.mark.parametrize("name", sorted(hand_made.everything()))
@pytest.mark.parametrize("workers", [1, 3])
def test_small_plans_by_hand(name: str, workers: int) -> None:
    plan = hand_made.everything()[name]
    machine = Settings(slot_bytes=128, workers=workers, timeout=60)
    check_expected(plan, Trial(plan.collective, 1001, "int64", "sum"), machine)


def test_a_rank_that_has_no_data_takes_part() -> None:
    """Rank 1 has neither input nor output; what the others do, before and after, is none of its concern."""
    plan = plan_of(
        Custom(
            input_chunks=[2, 0, 0], output_chunks=[0, 0, 2], promises={(2, 0): [(0, 0)], (2, 1): [(0, 1)]}
        ),
        [
            hand_made.block(0, hand_made.step("s", (0, 0), count=2), to=2),
            hand_made.block(2, hand_made.step("r", target=(1, 0), count=2), source=0),
        ],
    )

    def body(world: Communicator) -> Any:
        found = []
        for share in (1, 100):
            data = np.arange(2 * share) if world.rank == 0 else np.full(2 * share, -1)
            world.run(plan, data, data)
            world.barrier()
            found.append(data.tolist() == list(range(2 * share)))
        return found

    assert on_ranks(3, body) == [[True, True], [False, False], [True, True]]


def test_many_calls_of_many_plans_on_the_same_ranks() -> None:
    """Queues stay in order over plans that use other channels and peers each time."""
    plans = [plan for plan in LIBRARY_PLANS.values() if plan.num_ranks == 3][::5]
    trials = [Trial(plan.collective, 50, "int64", "sum") for plan in plans]

    def body(world: Communicator) -> list[str]:
        random = Random(11)
        wrong = []
        for number in range(200):
            which = random.randrange(len(plans))
            plan, trial = plans[which], trials[which]
            buffers = trial.make_buffers(world.rank)
            trial.fill(world.rank, buffers)
            world.run(plan, buffers.input, buffers.output)
            if error := expect(trial, world.rank).check_output(buffers.output):
                wrong.append(f"call {number}: {error}")
        return wrong

    assert on_ranks(3, body, settings=Settings(slots=2, slot_bytes=256, workers=2, timeout=60)) == [
        [],
        [],
        [],
    ]


def test_a_plan_that_is_wrong_is_not_run() -> None:
    plan = hand_made.relay(waits=False)

    def body(world: Communicator) -> str:
        with pytest.raises(Exception, match="is not run, because it is not right") as caught:
            world.run(plan, np.zeros(8))
        return type(caught.value).__name__

    assert on_ranks(3, body) == ["VerificationError"] * 3


def test_a_plan_that_needs_more_slots_than_there_are_is_not_run() -> None:
    """Each of two ranks sends four messages before it receives any."""
    plan = hand_made.exchange(4)

    def body(world: Communicator) -> list[int]:
        data = np.arange(8) + 100 * world.rank
        output = np.zeros_like(data)
        world.run(plan, data, output)
        return output.tolist()

    assert on_ranks(2, body, settings=Settings(slots=4))[0] == list(range(100, 108))
    with pytest.raises(Exception, match="deadlock"):
        on_ranks(2, body, settings=Settings(slots=3))


def test_a_message_that_fits_in_no_slot_is_refused() -> None:
    plan = hand_made.ring(2, fused=False, count=9)

    def body(world: Communicator) -> None:
        with pytest.raises(Exception, match="HEMIOLA_SLOT_BYTES to at least 72"):
            world.run(plan, np.zeros(18))

    on_ranks(2, body, settings=Settings(slot_bytes=64))
