"""Works and futures, over calls of the runtime that the test ends by hand."""

from __future__ import annotations

import pickle
from functools import partial

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from hemiola.errors import PeerLostError
from hemiola.integrations.torch.work import Call, CollectiveWork, FailedCall, together
from hemiola.runtime.communicator.handle import Handle


def test_the_result_is_copied_once_whoever_asks_first() -> None:
    handle, copies = Handle(), []
    work = CollectiveWork.of([torch.ones(1)], Call(handle, lambda: copies.append(1)))
    future = work.get_future()
    assert (work.is_completed(), future.done(), copies) == (False, False, [])
    handle.finish(None)
    assert future.done()
    assert work.wait()
    assert work.is_completed()
    assert copies == [1]
    assert future.wait()[0] is work.result()[0]


def test_an_error_comes_out_everywhere() -> None:
    handle, lost = Handle(), PeerLostError(3, "rank 3 died")
    work = CollectiveWork.of([torch.ones(1)], Call(handle, lambda: pytest.fail("there is no result")))
    future = work.get_future()
    then = future.then(lambda done: done.value())
    handle.finish(lost)
    for wait in (work.wait, future.wait, future.value, work.synchronize):
        with pytest.raises(PeerLostError, match="rank 3 died"):
            wait()
    with pytest.raises(RuntimeError, match="PeerLostError: rank 3 died"):
        then.wait()
    assert work.exception() is lost
    assert work.is_completed()
    assert not work.is_success()


def test_a_failed_future_holds_nothing_that_could_pass_for_tensors() -> None:
    """DDP looks for tensors in the value by pickling it."""
    with pytest.raises(PeerLostError, match="rank 3 died"):
        pickle.dumps(FailedCall(PeerLostError(3, "rank 3 died")))


def test_several_calls_end_with_the_last() -> None:
    handles: list[Handle | None] = [Handle(), Handle(), None]
    order: list[int] = []
    calls = [Call(handle, partial(order.append, number)) for number, handle in enumerate(handles)]
    work = CollectiveWork.of([torch.ones(1)], together(calls))
    future = work.get_future()
    first, second, _ = handles
    assert first is not None
    assert second is not None
    second.finish(None)
    assert not work.is_completed()
    assert not future.done()
    first.finish(None)
    assert future.done()
    assert order == [0, 1, 2]


def test_one_failure_among_several_is_the_failure_of_all() -> None:
    handles = [Handle(), Handle()]
    work = CollectiveWork.of([torch.ones(1)], together([Call(handle, None) for handle in handles]))
    future = work.get_future()
    handles[0].finish(PeerLostError(0, "rank 0 died"))
    assert not future.done()
    handles[1].finish(None)
    with pytest.raises(PeerLostError):
        future.wait()
