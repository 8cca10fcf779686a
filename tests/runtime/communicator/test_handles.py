"""Calls that run while the caller goes on: their order, their errors and their end."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from functools import partial

import numpy as np
import pytest

from hemiola.errors import CollectiveError, MismatchError, PeerLostError, RunError
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
        handle.add_done_callback(lambda _: meet(both))
        both.wait(TIMEOUT)
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


def test_callbacks_run_in_the_order_in_which_they_were_added() -> None:
    def body(world: Communicator) -> list[int]:
        called: list[int] = []
        handles = [world.all_reduce(ones(world), wait=False) for _ in range(10)]
        for number, handle in enumerate(handles):
            assert handle is not None
            handle.add_done_callback(partial(lambda number, _: called.append(number), number))
        world.close()  # waits for the callbacks
        return called

    assert on_ranks(3, body) == [list(range(10))] * 3


def test_a_callback_makes_calls_while_the_program_makes_others() -> None:
    """Ranks call back at different moments; calls of other lengths would be refused."""

    def body(world: Communicator) -> list[float]:
        sums: list[float] = []

        def call_back(length: int) -> None:
            data = ones(world, length)
            world.all_reduce(data)
            other = world.all_reduce(data, wait=False)
            assert other is not None
            other.wait(TIMEOUT)
            sums.append(data[-1])

        for number in range(8):
            handle = world.all_reduce(ones(world, 10 + number), wait=False)
            assert handle is not None
            time.sleep(0.003 * ((world.rank + number) % 3))
            handle.add_done_callback(partial(lambda length, _: call_back(length), 30 + number))
            world.all_reduce(ones(world, 50 + number))
        world.close()
        return sums

    assert on_ranks(3, body) == [[18.0] * 8] * 3


def test_a_dead_peer_is_named_by_every_call_in_the_queue() -> None:
    def body(world: Communicator) -> list[int]:
        if world.rank == 1:
            return []  # leaves at once, without the calls
        handles = [world.all_reduce(ones(world), wait=False) for _ in range(3)]
        lost = []
        for handle in handles:
            assert handle is not None
            with pytest.raises(PeerLostError) as error:
                handle.wait(TIMEOUT)
            assert handle.exception() is error.value
            lost.append(error.value.rank)
        with pytest.raises(PeerLostError):
            world.all_reduce(ones(world))
        return lost

    assert on_ranks(2, body) == [[1] * 3, []]


def test_a_rank_that_is_late_is_named_after_the_timeout() -> None:
    late = threading.Event()

    def body(world: Communicator) -> int:
        if world.rank == 1:
            assert late.wait(TIMEOUT)
            return 1
        handle = world.all_reduce(ones(world), wait=False)
        assert handle is not None
        with pytest.raises(PeerLostError, match=r"did not answer within 0\.3 s") as error:
            handle.wait()
        late.set()
        return error.value.rank

    assert on_ranks(2, body, timeout=0.3) == [1, 1]


def test_calls_get_on_while_python_is_locked() -> None:
    """The progress threads of two ranks of one process carry out a call while this thread never lets go of the GIL."""
    both = threading.Barrier(2)

    def body(world: Communicator) -> bool:
        world.all_reduce(np.ones(100))
        data = np.ones(100)
        both.wait(TIMEOUT)
        handle = world.all_reduce(data, wait=False)
        both.wait(TIMEOUT)
        assert handle is not None
        if world.rank == 1:
            handle.wait(TIMEOUT)
            return True
        sleep_with_the_lock(500_000)
        # Another thread can have run between the two lines above and here only if the lock was let go.
        return handle.done()

    assert on_ranks(2, body) == [True, True]


def sleep_with_the_lock(microseconds: int) -> None:
    ctypes.PyDLL(None).usleep(microseconds)


def test_wrong_memory_is_refused_when_the_call_is_made() -> None:
    def body(world: Communicator) -> bool:
        data = np.ones(8)
        data.setflags(write=False)
        with pytest.raises(CollectiveError, match="read-only"):
            world.all_reduce(data, wait=False)
        whole = np.ones(8)
        with pytest.raises(CollectiveError, match="overlap"):
            world.all_reduce(whole[:6], whole[1:7], wait=False)
        world.all_reduce(whole)
        return True

    assert on_ranks(2, body) == [True, True]
