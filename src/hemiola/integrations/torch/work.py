"""What torch.distributed gives back for a call: something to wait for, and a future."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, NoReturn, Protocol

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.futures import Future

from hemiola.integrations.torch.tensors import Finish

NO_TIMEOUT = timedelta(0)
"""What c10d passes to `wait` when the caller named none: the group's own holds."""

_Work: Any = Work
"""Without its types: where PyTorch is not installed there are none."""


class Pending(Protocol):
    """A call of the runtime that may still be going on; its error comes out of `wait`."""

    def wait(self, timeout: float | None = None) -> object: ...

    def done(self) -> bool: ...

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None: ...


class Call(NamedTuple):
    """A call of the runtime; ``pending`` is None when it has ended."""

    pending: Pending | None
    finish: Finish | None
    """What is left to do when it has ended: copies into the tensors."""


def together(calls: Sequence[Call]) -> Call:
    """Several calls as one."""
    pending = [call.pending for call in calls if call.pending is not None]
    finish = [call.finish for call in calls if call.finish is not None]
    return Call(Several(pending) if pending else None, partial(_run, finish) if finish else None)


def _run(actions: Sequence[Finish]) -> None:
    for action in actions:
        action()


class CollectiveWork(_Work):  # type: ignore[misc]
    """One call of a process group, running or ended, and the tensors that get its result."""

    _tensors: Sequence[Tensor] = ()
    _pending: Pending | None = None
    _finish: Finish | None = None
    _future: Future[Any] | None = None

    @classmethod
    def of(cls, tensors: Sequence[Tensor], call: Call) -> CollectiveWork:
        work = cls.ended(tensors)
        if call.pending is not None:
            work._pending = call.pending
            work._finish = None if call.finish is None else Once(call.finish)
        elif call.finish is not None:
            call.finish()
        return work

    @classmethod
    def ended(cls, tensors: Sequence[Tensor]) -> CollectiveWork:
        """Of a call that left nothing to do; made for every synchronous call, so it does no more than it must."""
        work = cls()
        work._tensors = tensors
        return work

    @property
    def call(self) -> Call:
        """What is left of the call, to be waited for together with others."""
        return Call(self._pending, self._finish)

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Until the tensors hold the result; raises what went wrong."""
        if self._pending is not None:
            self._pending.wait(timeout.total_seconds() or None)
        if self._finish is not None:
            self._finish()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        """Whether the tensors hold the result, or never will."""
        if self._is_running():
            return False
        self.exception()
        return True

    def is_success(self) -> bool:
        return not self._is_running() and self.exception() is None

    def exception(self) -> Exception | None:
        """What went wrong in a call that has ended; what arrived is then where it belongs."""
        if self._is_running():
            return None
        try:
            self.wait()
        except Exception as error:  # noqa: BLE001  # handed over, not swallowed
            return error
        return None

    def result(self) -> list[Tensor]:
        return list(self._tensors)

    def get_future(self) -> Future[Any]:
        """Completed with the tensors, or with what went wrong, by whoever ends the call."""
        if self._future is None:
            self._future = torch.futures.Future()
            if self._pending is None:
                self._complete(None)
            else:
                self._pending.add_done_callback(self._complete)
        return self._future

    def _is_running(self) -> bool:
        return self._pending is not None and not self._pending.done()

    def _complete(self, _: object) -> None:
        assert self._future is not None
        error = self.exception()
        if error is None:
            self._future.set_result(self.result())
        else:
            _fail(self._future, error)


class FailedCall:
    """The value of a future whose call went wrong.

    A future of PyTorch can hold no error that both of its sides understand. Python asks through ``_unwrap`` and
    gets the error itself. C++ (DDP) looks for tensors by pickling the value, which must not succeed: it
    would go on without any.
    """

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> NoReturn:
        raise self.error


def _fail(future: Any, error: Exception) -> None:
    future._set_unwrap_func(_unwrap)
    future.set_result(FailedCall(error))


def _unwrap(failure: FailedCall) -> NoReturn:
    raise failure.error


class Once:
    """Runs an action for whoever asks first; all others wait until it has been run."""

    __slots__ = ("_action", "_lock")

    def __init__(self, action: Finish) -> None:
        self._action: Finish | None = action
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            if self._action is not None:
                self._action()
                self._action = None


class Several:
    """Calls that count as one: ended when all have, wrong when one is."""

    __slots__ = ("_calls",)

    def __init__(self, calls: Sequence[Pending]) -> None:
        self._calls = calls

    def wait(self, timeout: float | None = None) -> None:
        for call in self._calls:
            call.wait(timeout)

    def done(self) -> bool:
        return all(call.done() for call in self._calls)

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None:
        """Each call that ends asks whether it was the last."""
        left = [len(self._calls)]
        lock = threading.Lock()

        def count(_: object) -> None:
            with lock:
                left[0] -= 1
                last = left[0] == 0
            if last:
                callback(self)

        for call in self._calls:
            call.add_done_callback(count)
