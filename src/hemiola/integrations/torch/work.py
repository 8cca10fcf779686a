"""CollectiveWork: what torch.distributed returns for a call, with its result, its error and its future."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol

from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.futures import Future

from hemiola.integrations.torch.call_future import CallFuture
from hemiola.integrations.torch.tensors import Finish
from hemiola.integrations.torch.untraced import untraced
from hemiola.runtime.communicator.callback_thread import CallbackThread

NO_TIMEOUT = timedelta(0)
"""The timeout that c10d passes to ``wait`` when the caller gives none; then that of the group is used."""

_Work: Any = Work
"""The base class without its types, which do not exist without PyTorch."""


class Pending(Protocol):
    """A call of the runtime that may still run; ``wait`` raises its error."""

    def wait(self, timeout: float | None = None) -> object: ...

    def done(self) -> bool: ...

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None: ...

    @property
    def callbacks(self) -> CallbackThread:
        """The thread in which callbacks run."""


class Call(NamedTuple):
    """A call of the runtime; ``pending`` is None when it has ended."""

    pending: Pending | None
    finish: Finish | None
    """Copies the result into the tensors after the call has ended; None where there is nothing to copy."""


def together(calls: Sequence[Call]) -> Call:
    """One call that stands for several calls."""
    pending = [call.pending for call in calls if call.pending is not None]
    finish = [call.finish for call in calls if call.finish is not None]
    return Call(Several(pending) if pending else None, partial(_run, finish) if finish else None)


def _run(actions: Sequence[Finish]) -> None:
    for action in actions:
        action()


@untraced
class CollectiveWork(_Work):  # type: ignore[misc]
    """A call of a process group that runs or has ended, with the tensors that get its result."""

    _tensors: Sequence[Tensor] = ()
    _pending: Pending | None = None
    _finish: Finish | None = None
    _future: CallFuture | None = None

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
        """The work of a call that has ended with nothing left to copy. Every synchronous call makes one, so it must be fast."""
        work = cls()
        work._tensors = tensors
        return work

    @property
    def call(self) -> Call:
        """The unfinished part of the call, which can be combined with others."""
        return Call(self._pending, self._finish)

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Wait until the tensors hold the result; raises the error of the call."""
        if self._pending is not None:
            self._pending.wait(timeout.total_seconds() or None)
        if self._finish is not None:
            self._finish()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        """Whether the call has ended, with a result in the tensors or with an error."""
        if self._is_running():
            return False
        self.exception()
        return True

    def is_success(self) -> bool:
        return not self._is_running() and self.exception() is None

    def exception(self) -> Exception | None:
        """The error of a call that has ended, or None. Asking copies the result into the tensors first."""
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
        """A future with the tensors, or with the error; the thread of the group's callbacks completes it."""
        if self._future is None:
            if self._pending is None:
                self._future = CallFuture(None)
                self._complete()
            else:
                self._future = CallFuture(self._pending.callbacks, self._await_call)
                self._pending.add_done_callback(lambda _: self._complete())
        return self._future

    def _is_running(self) -> bool:
        return self._pending is not None and not self._pending.done()

    def _await_call(self) -> None:
        if self._pending is not None:
            with suppress(Exception):  # the future raises it
                self._pending.wait()

    def _complete(self) -> None:
        assert self._future is not None
        error = self.exception()
        if error is None:
            self._future.succeed(self.result())
        else:
            self._future.fail(error)


class Once:
    """An action that the first caller runs; all other callers wait until it has ended."""

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
    """Several calls as one: it has ended when all have, and it fails when one does."""

    __slots__ = ("_calls",)

    def __init__(self, calls: Sequence[Pending]) -> None:
        self._calls = calls

    def wait(self, timeout: float | None = None) -> None:
        for call in self._calls:
            call.wait(timeout)

    def done(self) -> bool:
        return all(call.done() for call in self._calls)

    @property
    def callbacks(self) -> CallbackThread:
        """The thread of the last call's callbacks."""
        return self._calls[-1].callbacks

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None:
        """Call ``callback`` when the last of the calls has ended."""
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
