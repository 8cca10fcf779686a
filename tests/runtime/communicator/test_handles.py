"""Calls that run while the caller goes on: their order, their errors and their end."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

from hemiola.errors import MismatchError, RunError
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.communicator.handle import Handle
from runtime.worlds import TIMEOUT, on_ranks, ones


def test_they_run_in_order_also_when_mixed_with_calls_that_wait() -> None:
    def body(world: Communicator) -> list[float]:
        data = np.ones(1)
        handles: list[Handle] = []
        for number in range(60):
            if number % 7 == 3:
                world.all_reduce(data)
                assert all(handle.done() for handle in handles)
            else:
                handle = world.all_reduce(data, op="avg" if number % 2 else "sum", wait=False)
                assert isinstance(handle, Handle)
                handles.append(handle)
        for handle in handles:
            handle.wait(TIMEOUT)
        return data.tolist()

    value = 1.0
    for number in range(60):
        value *= 1 if number % 2 and number % 7 != 3 else 3
    assert on_ranks(3, body) == [[value]] * 3


def test_a_handle_is_done_when_the_others_have_come() -> None:
    gate = threading.Event()

    def body(world: Communicator) -> tuple[bool, bool, list[float]]:
        data = ones(world)
        if world.rank == 1:
            assert gate.wait(TIMEOUT)
        handle = world.all_reduce(data, wait=False)
        assert handle is not None
        early = handle.done() if world.rank == 0 else False
        if world.rank == 0:
            with pytest.raises(RunError, match=r"still running after 0\.05 s"):
                handle.wait(0.05)
            assert handle.exception() is None
            gate.set()
        handle.wait(TIMEOUT)
        return early, handle.done(), data.tolist()

    assert on_ranks(2, body) == [(False, True, [3.0] * 5)] * 2


def meet(barrier: threading.Barrier) -> None:
    barrier.wait(TIMEOUT)


def test_callbacks_are_called_once_with_their_handle() -> None:
    def body(world: Communicator) -> list[bool]:
        called = []
        handle = world.all_reduce(ones(world), wait=False)
        assert handle is not None
        both = threading.Barrier(2)
        handle.add_done_callback(lambda one: called.append(one is handle and one.done()))
        handle.add_done_callback(lambda _: meet(both))
        both.wait(TIMEOUT)
        handle.add_done_callback(lambda one: called.append(one is handle))
        return called

    assert on_ranks(2, body) == [[True, True]] * 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_raises_stops_nothing() -> None:
    def explode(handle: Handle) -> None:
        raise ValueError("seven is not even")

    def body(world: Communicator) -> list[float]:
        data = np.ones(1)
        for _ in range(3):
            handle = world.all_reduce(data, wait=False)
            assert handle is not None
            if not handle.done():
                handle.add_done_callback(explode)
            handle.wait(TIMEOUT)
        return data.tolist()

    assert on_ranks(2, body) == [[8.0]] * 2


def test_an_error_waits_in_the_handle() -> None:
    def body(world: Communicator) -> str:
        handle = world.all_reduce(np.zeros(4 + world.rank), wait=False)
        assert handle is not None
        with pytest.raises(MismatchError):
            handle.wait(TIMEOUT)
        with pytest.raises(MismatchError):  # and again
            handle.wait(TIMEOUT)
        return type(handle.exception()).__name__

    assert on_ranks(2, body) == ["MismatchError"] * 2


def test_close_waits_for_the_calls_under_way() -> None:
    def body(world: Communicator) -> list[float]:
        data = np.ones(100_000)
        for _ in range(10):
            world.all_reduce(data, op="avg", wait=False)
        world.all_reduce(data, wait=False)
        world.close()
        return [data.min(), data.max()]

    assert on_ranks(2, body) == [[2.0, 2.0]] * 2


def test_arrays_are_free_when_their_call_has_ended() -> None:
    def body(world: Communicator) -> bool:
        data = np.ones(10)
        gone = weakref.ref(data)
        handle = world.all_reduce(data, wait=False)
        assert handle is not None
        handle.wait(TIMEOUT)
        del data
        return gone() is None

    assert on_ranks(2, body) == [True, True]
