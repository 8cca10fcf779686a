"""Operators at the edges of their types, and the same bits on all ranks."""

from __future__ import annotations

import numpy as np
import pytest

from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.communicator.numbers import NUMBERS
from runtime.worlds import on_ranks, ones


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "int64"])
def test_averages_of_integers_are_cut_towards_zero(name: str) -> None:
    def body(world: Communicator) -> list[int]:
        data = np.array([world.rank, 7, 5 * world.rank], name)
        if name != "uint8":
            data = -data
        world.all_reduce(data, op="avg")
        return [int(x) for x in data]

    sign = 1 if name == "uint8" else -1
    assert on_ranks(3, body) == [[sign, 7 * sign, 5 * sign]] * 3
    assert on_ranks(4, body) == [[sign, 7 * sign, 7 * sign]] * 4  # 6 / 4 and 30 / 4


@pytest.mark.parametrize("call", ["reduce_scatter", "reduce"])
def test_averages_of_other_collectives(call: str) -> None:
    def body(world: Communicator) -> list[float]:
        output = np.zeros(2)
        if call == "reduce":
            world.reduce(ones(world, 2), output, root=1, op="avg")
        else:
            world.reduce_scatter(ones(world, 6), output, op="avg")
        return output.tolist()

    found = on_ranks(3, body)
    assert found[1] == [2.0, 2.0]
    if call == "reduce_scatter":
        assert found == [[2.0, 2.0]] * 3


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_nan_reaches_every_rank_and_infinities_behave(name: str, op: str) -> None:
    def body(world: Communicator) -> list[float]:
        data = np.array([1, 1, 1, 1], name)
        if world.rank == 1:
            data[:] = [np.nan, np.inf, -np.inf, 2]
        if world.rank == 2:
            data[2] = np.inf
        world.all_reduce(data, op=op)
        return [float(x) for x in data]

    found = on_ranks(3, body)
    for nan, infinity, both, finite in found:
        assert np.isnan(nan)
        assert infinity == (1 if op == "min" else np.inf)
        expected = {"min": -np.inf, "max": np.inf, "prod": -np.inf}.get(op)
        assert np.isnan(both) if expected is None else both == expected
        assert np.isfinite(finite)


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
@pytest.mark.parametrize("num_ranks", [3, 5])
def test_the_same_bits_on_all_ranks_where_asked(name: str, num_ranks: int) -> None:
    """Sums that depend on their order: numbers of either sign and many sizes."""

    def body(world: Communicator) -> list[bytes]:
        found = []
        for length in (3, 100, 5000, 100_000):
            random = np.random.default_rng((world.rank, length))
            data = (random.standard_normal(length) * 2.0 ** random.integers(-8, 8, length)).astype(name)
            world.all_reduce(data)
            found.append(data.tobytes())
        return found

    found = on_ranks(num_ranks, body, same_expression=True)
    assert all(one == found[0] for one in found)


def test_the_types_of_the_library_and_of_the_core_are_the_same() -> None:
    """One call for each type, through the library."""

    def body(world: Communicator) -> list[bool]:
        right = []
        for name, number in NUMBERS.items():
            if name == "bfloat16":
                continue
            data = np.full(3, world.rank + 1, number.storage)
            world.all_reduce(data)
            right.append(bool((data == 6).all()))
        return right

    assert on_ranks(3, body) == [[True] * 7] * 3
