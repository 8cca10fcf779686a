"""Works and futures, over calls of the runtime that the test ends by hand."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from hemiola.errors import PeerLostError
from hemiola.integrations.torch.call_future import FailedCall
from hemiola.integrations.torch.work import Call, CollectiveWork, together
from hemiola.runtime.communicator.callback_thread import CallbackThread
from hemiola.runtime.communicator.handle import CallEnd, Handle


@pytest.fixture
def callbacks() -> Iterator[CallbackThread]:
    thread = CallbackThread("test")
    yield thread
    thread.close()


def test_the_result_is_copied_once_whoever_asks_first(callbacks: CallbackThread) -> None:
    outcome, copies = CallEnd(), []
    work = CollectiveWork.of([torch.ones(1)], Call(outcome.handle(callbacks), lambda: copies.append(1)))
    future = work.get_future()
    assert (work.is_completed(), future.done(), copies) == (False, False, [])
    outcome.finish(None)
    future.wait()
    assert work.wait()
    assert work.is_completed()
    assert copies == [1]
    assert future.wait()[0] is work.result()[0]


def test_an_error_comes_out_everywhere(callbacks: CallbackThread) -> None:
    outcome, lost = CallEnd(), PeerLostError(3, "rank 3 died")
    call = Call(outcome.handle(callbacks), lambda: pytest.fail("there is no result"))
    work = CollectiveWork.of([torch.ones(1)], call)
    future = work.get_future()
    then = future.then(lambda done: done.value())
    outcome.finish(lost)
    for wait in (work.wait, future.wait, future.value, work.synchronize, then.wait):
        with pytest.raises(PeerLostError, match="rank 3 died"):
            wait()
    assert work.exception() is lost
    assert work.is_completed()
    assert not work.is_success()


def test_a_failed_future_holds_nothing_that_could_pass_for_tensors() -> None:
    """DDP looks for tensors in the value by pickling it."""
    with pytest.raises(PeerLostError, match="rank 3 died"):
        pickle.dumps(FailedCall(PeerLostError(3, "rank 3 died")))


def test_several_calls_end_with_the_last(callbacks: CallbackThread) -> None:
    first, second = CallEnd(), CallEnd()
    handles: list[Handle | None] = [first.handle(callbacks), second.handle(callbacks), None]
    order: list[int] = []
    calls = [Call(handle, partial(order.append, number)) for number, handle in enumerate(handles)]
    work = CollectiveWork.of([torch.ones(1)], together(calls))
    future = work.get_future()
    second.finish(None)
    assert not work.is_completed()
    assert not future.done()
    first.finish(None)
    future.wait()
    assert order == [0, 1, 2]


def test_one_failure_among_several_is_the_failure_of_all(callbacks: CallbackThread) -> None:
    outcomes = [CallEnd(), CallEnd()]
    calls = [Call(outcome.handle(callbacks), None) for outcome in outcomes]
    future = CollectiveWork.of([torch.ones(1)], together(calls)).get_future()
    outcomes[0].finish(PeerLostError(0, "rank 0 died"))
    assert not future.done()
    outcomes[1].finish(None)
    with pytest.raises(PeerLostError):
        future.wait()
