"""Handle: a call that is under way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from hemiola.errors import RunError


class Handle:
    """A call that runs while the caller goes on. Its arrays belong to it until it is done."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Handle], None]] = []
        self._lock = threading.Lock()

    def done(self) -> bool:
        """Whether the call has ended, well or not."""
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the call has ended, and raise what went wrong."""
        if not self._done.wait(timeout):
            raise RunError(f"the call is still running after {timeout:g} s; wait longer, or look who is late")
        if self._error is not None:
            raise self._error

    def exception(self) -> BaseException | None:
        """What went wrong; None while the call runs and when it ended well."""
        return self._error

    def add_done_callback(self, callback: Callable[[Handle], None]) -> None:
        """Call it with this handle when the call has ended, at once if it has; in the thread that ends it."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def finish(self, error: BaseException | None) -> None:
        """Called once by whoever ran the call."""
        with self._lock:
            self._error = error
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                logging.getLogger("hemiola").exception("a callback of a finished call failed")
