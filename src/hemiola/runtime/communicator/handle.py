"""Handle: an asynchronous call, to wait for or to poll."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from hemiola.errors import RunError


class Handle:
    """A call that runs while the caller continues. The caller must not touch its arrays until it is done."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Handle], None]] = []
        self._lock = threading.Lock()

    def done(self) -> bool:
        """Whether the call has ended, with or without an error."""
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the call has ended, and raise its error if it has one."""
        if not self._done.wait(timeout):
            raise RunError(f"the call is still running after {timeout:g} s; wait longer, or look who is late")
        if self._error is not None:
            raise self._error

    def exception(self) -> BaseException | None:
        """The error of the call; None while it runs and when it ended without one."""
        return self._error

    def add_done_callback(self, callback: Callable[[Handle], None]) -> None:
        """Call ``callback`` with this handle in the thread that ends the call, or now if the call has ended."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def finish(self, error: BaseException | None) -> None:
        """Mark the call as ended; its queue calls this once."""
        with self._lock:
            self._error = error
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                logging.getLogger("hemiola").exception("a callback of a finished call failed")
