"""CallFuture: the future of a call, whose callbacks all run in the thread of the group's callbacks, in order.

A future of PyTorch runs a callback in the thread that completes it or, if it is complete, in the thread that adds the
callback. Which of the two it is differs from rank to rank. A callback that makes a call, as DDP's hooks for compressed
gradients do, would then make it at another place in the order of calls on each rank. Here all callbacks run in one
thread: those of a call, and those that are chained to them, before those of the next call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from hemiola.integrations.torch.untraced import untraced
from hemiola.runtime.communicator.callback_thread import CallbackThread

_Future: Any = torch.futures.Future
"""The base class without its types, which do not exist without PyTorch."""


@untraced
class CallFuture(_Future):  # type: ignore[misc]
    """A future whose callbacks run in a ``CallbackThread``; without one, for a call that has ended, where they are added."""

    def __init__(
        self, callbacks: CallbackThread | None, await_call: Callable[[], None] | None = None
    ) -> None:
        """``await_call`` returns when the call that completes the future has ended."""
        super().__init__()
        self._callbacks = callbacks
        self._await_call = await_call

    def succeed(self, value: object) -> None:
        """Complete the future with a value."""
        self._await_call = None
        self.set_result(value)

    def fail(self, error: Exception) -> None:
        """Complete the future with an error, which ``wait`` and ``value`` raise."""
        self._await_call = None
        self._set_unwrap_func(_unwrap)
        self.set_result(FailedCall(error))

    def wait(self) -> Any:
        """The value. A callback that waits for what a later callback completes runs the callbacks up to that one."""
        await_call = self._await_call
        if await_call is not None:
            await_call()
        if self._callbacks is not None and self._callbacks.is_current():
            while not self.done():
                self._callbacks.run_next()
        return super().wait()

    def then(self, callback: Callable[[Any], Any]) -> CallFuture:
        """A future with what the callback returns for this one, or with the error that it raises."""
        child = CallFuture(self._callbacks)

        def run(_: object) -> None:
            try:
                value = callback(self)
            except Exception as error:  # noqa: BLE001 (the future raises it)
                child.fail(error)
            else:
                child.succeed(value)

        self.add_done_callback(run)
        return child

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call ``callback`` with this future when it is complete."""
        if self._callbacks is None:
            super().add_done_callback(callback)
            return
        callbacks = self._callbacks

        def complete(_: object) -> None:
            if callbacks.is_current():
                callback(self)
            else:
                callbacks.post(lambda: callback(self))

        super().add_done_callback(complete)


class FailedCall:
    """The value of a future whose call failed.

    A future of PyTorch cannot hold an error for both Python and C++. Python gets the value through ``_unwrap``, which
    raises the error. C++ (DDP) pickles the value to find tensors in it; pickling raises the error, because DDP would
    otherwise continue without any tensors.
    """

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> NoReturn:
        raise self.error


def _unwrap(failure: FailedCall) -> NoReturn:
    raise failure.error
