"""The expected results: every right output passes, every wrong element is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.collectives import (
    FACTS,
    AllGather,
    AllReduce,
    AllToAll,
    AllToNext,
    Broadcast,
    Collective,
    Custom,
    Gather,
    Reduce,
    ReduceScatter,
    Scatter,
    SendRecv,
)
from hemiola.runtime.checking.check import Expected, Wrong, expect
from hemiola.runtime.checking.trial import PERIOD, Trial, fit_share, in_shares
from hemiola.runtime.communicator.numbers import NUMBERS, OPERATORS, NumpyArray

MIXED = Custom(
    input_chunks=[2, 1, 3],
    output_chunks=[2, 1, 0],
    promises={(0, 0): [(0, 0), (1, 0), (2, 2)], (1, 0): [(2, 1)]},
)
"""Uneven buffers, a sum over different chunks, a move, and an output chunk that is not promised."""

MAKERS: tuple[Callable[[int], Collective], ...] = (
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    AllToNext,
    lambda n: Broadcast(n, root=n - 1),
    lambda n: Reduce(n, root=n // 2),
    lambda n: Gather(n, root=n - 1),
    lambda n: Scatter(n, root=n // 2),
    lambda n: SendRecv(n, source=n - 1, destination=0),
    lambda _: MIXED,
)


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    """Any collective in any form, element type and operator, with small shares."""
    collective = draw(st.sampled_from(MAKERS))(draw(st.integers(2, 5)))
    in_place = FACTS[collective.kind].can_be_in_place and draw(st.booleans())
    return Trial(
        collective.with_place(in_place=in_place).refine(draw(st.integers(1, 3))),
        share=draw(st.integers(0, 9)),
        element=draw(st.sampled_from(list(NUMBERS))),
        op=draw(st.sampled_from(OPERATORS)),
        seed=draw(st.integers(0, 5)),
    )


def step(trial: Trial, a: NumpyArray, b: NumpyArray) -> NumpyArray:
    """One reduction as a runtime does it: rounded to the element type at once."""
    number = trial.number
    reduce = {"prod": np.multiply, "min": np.minimum, "max": np.maximum}.get(trial.op, np.add)
    with np.errstate(over="ignore"):
        return number.narrow(reduce(number.widen(a), number.widen(b)))


def run(
    trial: Trial, order: Callable[[list[tuple[int, int]]], list[tuple[int, int]]] = list
) -> list[NumpyArray]:
    """The outputs of all ranks, contributions added one by one in the given order."""
    inputs = []
    for rank in range(trial.collective.num_ranks):
        buffers = trial.make_buffers(rank)
        trial.fill(rank, buffers)
        inputs.append(buffers.input.copy())
    outputs = [trial.make_buffers(rank).output.copy() for rank in range(trial.collective.num_ranks)]
    share = trial.share
    for (rank, _, index), origins in trial.meaning().promises():
        parts = [inputs[q][i * share : (i + 1) * share] for q, i in order(sorted(origins))]
        total = parts[0]
        for part in parts[1:]:
            total = step(trial, total, part)
        if trial.op == "avg" and FACTS[trial.collective.kind].sums:
            total = divide(trial, total)
        outputs[rank][index * share : (index + 1) * share] = total
    return outputs


def divide(trial: Trial, total: NumpyArray) -> NumpyArray:
    ranks = trial.collective.num_ranks
    if trial.number.is_floating:
        return trial.number.narrow(trial.number.widen(total) / ranks)
    return np.array([int(x / ranks) if abs(int(x)) < 2**52 else towards_zero(int(x), ranks) for x in total]).astype(total.dtype)  # fmt: skip


def towards_zero(value: int, divisor: int) -> int:
    return abs(value) // divisor * (1 if value >= 0 else -1)


def wrong_ones(trial: Trial, outputs: list[NumpyArray]) -> list[Wrong]:
    found = (expect(trial, rank).check_output(output) for rank, output in enumerate(outputs))
    return [wrong for wrong in found if wrong is not None]


@given(trials(), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_sums_in_any_order_are_accepted(trial: Trial, random: object) -> None:
    def shuffled(origins: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return sorted(origins, key=lambda _: random.random())  # type: ignore[attr-defined]

    assert wrong_ones(trial, run(trial, shuffled)) == []


@given(trials(), st.data())
@settings(max_examples=300, deadline=None)
def test_every_single_wrong_element_is_found(trial: Trial, data: st.DataObject) -> None:
    outputs = run(trial)
    expectations = [expect(trial, rank) for rank in range(len(outputs))]
    places = [
        (rank, row, k)
        for rank, expectation in enumerate(expectations)
        for row in expectation.output
        for k in range(row.length)
    ]
    if not places:
        return
    rank, row, k = data.draw(st.sampled_from(places))
    bit = data.draw(st.integers(0, 8 * trial.number.storage.itemsize - 1))
    corrupt(trial, row, k, outputs[rank], bit)
    (wrong,) = wrong_ones(trial, outputs)
    assert (wrong.rank, wrong.buffer, wrong.index) == (rank, "output", row.first + k)


def corrupt(trial: Trial, row: Expected, k: int, output: NumpyArray, bit: int) -> None:
    """Flip any bit where all bits count; otherwise go just outside what is allowed."""
    at = slice(row.first + k, row.first + k + 1)
    if row.bound is None or not trial.number.is_floating:
        bits = np.dtype(f"u{output.itemsize}")
        output[at].view(bits)[:] ^= bits.type(1 << bit)
    else:
        beyond = row.values[k] + (3 * row.bound[k] + 1) * (-1) ** bit
        output[at] = trial.number.narrow(np.array([beyond]))


@pytest.mark.parametrize("element", NUMBERS)
@pytest.mark.parametrize("op", OPERATORS)
def test_a_missing_contribution_is_found(element: str, op: str) -> None:
    trial = Trial(AllReduce(8), share=64, element=element, op=op)
    outputs = run(trial, lambda origins: origins[:-1])
    assert [wrong.rank for wrong in wrong_ones(trial, outputs)] == list(range(8))


@pytest.mark.parametrize("element", NUMBERS)
def test_a_contribution_added_twice_is_found(element: str) -> None:
    trial = Trial(AllReduce(4), share=64, element=element)
    outputs = run(trial, lambda origins: [*origins, origins[0]])
    assert len(wrong_ones(trial, outputs)) == 4


@pytest.mark.parametrize("element", NUMBERS)
@pytest.mark.parametrize("make", [AllGather, AllToAll])
def test_data_in_a_wrong_place_is_found(make: Callable[[int], Collective], element: str) -> None:
    share = 2 * PERIOD // 3
    trial = Trial(make(3), share=share, element=element)
    outputs = run(trial)
    assert wrong_ones(trial, outputs) == []
    outputs[1][:] = np.roll(outputs[1], share)
    (wrong,) = wrong_ones(trial, outputs)
    assert wrong.rank == 1


def test_long_inputs_are_checked_to_the_end() -> None:
    trial = Trial(AllReduce(2), share=2 * PERIOD + 5, element="int32")
    outputs = run(trial)
    assert wrong_ones(trial, outputs) == []
    outputs[1][-1] += 1
    (wrong,) = wrong_ones(trial, outputs)
    assert (wrong.rank, wrong.index) == (1, 2 * PERIOD + 4)


def test_exact_sums_of_small_types_have_no_slack() -> None:
    trial = Trial(AllReduce(16), share=4, element="bfloat16")
    (row,) = expect(trial, 0).output
    assert row.bound is not None
    assert row.bound[0] == row.bound[2] == 0 < row.bound[1]


def test_an_input_that_was_not_kept_is_found() -> None:
    trial = Trial(AllReduce(2), share=5)
    buffers = trial.make_buffers(1)
    trial.fill(1, buffers)
    assert expect(trial, 1).check_input(buffers.input) is None
    buffers.input[3] += 1
    wrong = expect(trial, 1).check_input(buffers.input)
    assert wrong is not None
    assert (wrong.rank, wrong.buffer, wrong.index) == (1, "input", 3)


def test_what_was_not_written_is_found() -> None:
    trial = Trial(AllReduce(2), share=5)
    buffers = trial.make_buffers(0)
    trial.fill(0, buffers)
    wrong = expect(trial, 0).check_output(buffers.output)
    assert wrong is not None
    assert wrong.index == 0
    assert str(wrong).startswith("rank 0: element 0 of its output should be ")


@given(trials())
@settings(deadline=None)
def test_buffers_overlap_exactly_as_the_collective_says(trial: Trial) -> None:
    shares = in_shares(trial.collective)
    for rank in range(shares.num_ranks):
        buffers = trial.make_buffers(rank)
        assert len(buffers.input) == shares.input_chunks(rank) * trial.share
        assert len(buffers.output) == shares.output_chunks(rank) * trial.share
        alias = shares.alias()
        shared = alias is not None and alias.offset[rank] >= 0 and buffers.input.size and buffers.output.size
        assert np.shares_memory(buffers.input, buffers.output) == bool(shared)


@pytest.mark.parametrize(("elements", "share"), [(0, 0), (1, 1), (7, 2), (8, 2), (9, 3)])
def test_an_input_of_many_shares_is_rounded_up(elements: int, share: int) -> None:
    assert fit_share(AllToAll(4), elements) == share
    assert fit_share(AllReduce(4, chunks=3), elements) == elements


def test_the_same_seed_gives_the_same_inputs_and_another_rank_others() -> None:
    trial = Trial(AllReduce(2), share=100)
    assert np.array_equal(trial.pattern(0), trial.pattern(0))
    assert not np.array_equal(trial.pattern(0), trial.pattern(1))
    assert not np.array_equal(trial.pattern(0), replace(trial, seed=1).pattern(0))
