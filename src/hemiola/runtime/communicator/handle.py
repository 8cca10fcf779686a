"""Handle: an asynchronous call, to wait for or to poll."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from hemiola.errors import RunError
from hemiola.runtime.communicator.callback_thread import CallbackThread


class Started(Protocol):
    """A call that runs somewhere: ``_core.StartedCall`` in the progress thread, or ``CallEnd`` in a thread of Python."""

    def done(self) -> bool: ...

    def wait(self, seconds: float | None, pays_attention: bool = True) -> bool: ...


class Handle:
    """A call that runs while the caller continues. The caller must not touch its arrays until it is done."""

    def __init__(
        self, started: Started, error: Callable[[], BaseException | None], callbacks: CallbackThread
    ) -> None:
        """``error`` gives the error of a call that has ended, or None."""
        self._started = started
        self._find_error: Callable[[], BaseException | None] | None = error
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self.callbacks = callbacks
        """The thread in which the callbacks run."""

    def done(self) -> bool:
        """Whether the call has ended, with or without an error."""
        return self._started.done()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the call has ended, and raise its error if it has one."""
        if not self._started.wait(timeout):
            raise RunError(f"the call is still running after {timeout:g} s; wait longer, or look who is late")
        error = self._outcome()
        if error is not None:
            raise error

    def exception(self) -> BaseException | None:
        """The error of the call; None while it runs and when it ended without one."""
        return self._outcome() if self._started.done() else None

    def add_done_callback(self, callback: Callable[[Handle], None]) -> None:
        """Call ``callback`` with this handle when the call has ended, in the thread of the communicator's callbacks.

        It runs after the callbacks that were added before it to any call of the communicator. It may make calls and wait
        for them.
        """
        self.callbacks.post(lambda: self._call_back(callback))

    def _call_back(self, callback: Callable[[Handle], None]) -> None:
        self._started.wait(None, pays_attention=False)
        callback(self)

    def _outcome(self) -> BaseException | None:
        """The error of a call that has ended. It is asked for once, because asking tells other ranks of it."""
        with self._lock:
            if self._find_error is not None:
                self._error = self._find_error()
                self._find_error = None
            return self._error


class CallEnd:
    """The end of a call that a thread of Python runs, and its error."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self.error: BaseException | None = None

    def finish(self, error: BaseException | None) -> None:
        """Mark the call as ended."""
        self.error = error
        self._ended.set()

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._ended.is_set()

    def wait(self, seconds: float | None, pays_attention: bool = True) -> bool:
        """Wait until the call has ended or the seconds are over; returns whether it has ended."""
        return self._ended.wait(seconds)

    def handle(self, callbacks: CallbackThread) -> Handle:
        """The handle of the call."""
        return Handle(self, lambda: self.error, callbacks)
