"""CallbackThread: the thread in which the callbacks of one communicator's calls run, one after another.

The thread that runs the calls never runs callbacks, so a callback may wait for another call. Callbacks run in the order
in which they were added, on every rank the same, whether or not their call had ended by then. Calls that a callback makes
therefore come in the same order on every rank, too; ``Lanes`` keeps them apart from the calls of all other threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

Callback = Callable[[], None]

RUNNING: dict[int, str] = {}
"""The threads that run a callback at this moment, by their identifiers, with the name of the communicator.

Frequent calls only ask whether it is empty."""


class CallbackThread:
    """Runs callbacks in order. The thread starts with the first callback."""

    def __init__(self, name: str, *, has_lane: bool = True) -> None:
        """``has_lane`` says whether all ranks run these callbacks, so that calls made in them get a lane of their own."""
        self.name = name
        self._has_lane = has_lane
        self._callbacks: SimpleQueue[Callback | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def post(self, callback: Callback) -> None:
        """Add a callback to the end of the queue; after ``close`` it runs at once."""
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._callbacks.put(callback)
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._serve, name=f"hemiola {self.name}", daemon=True
                    )
                    self._thread.start()
        if is_closed:
            _run(callback)

    def is_current(self) -> bool:
        """Whether the caller is a callback of this thread."""
        return self._thread is threading.current_thread()

    def run_next(self) -> None:
        """Run the next callback inside the one that is running, which waits for it."""
        assert self.is_current()
        callback = self._callbacks.get()
        if callback is None:
            self._callbacks.put(None)
            raise RuntimeError(
                f"a callback of {self.name!r} waits for one that is never called: it was closed"
            )
        _run(callback)

    def close(self) -> None:
        """Run the callbacks that are left, and end the thread."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            self._callbacks.put(None)
            if thread is not threading.current_thread():
                thread.join()

    def _serve(self) -> None:
        identifier = threading.get_ident()
        while (callback := self._callbacks.get()) is not None:
            if self._has_lane:
                RUNNING[identifier] = self.name
            _run(callback)
            RUNNING.pop(identifier, None)
            del callback  # so that what it holds is freed before the next one comes


def current_callbacks() -> str | None:
    """The name of the communicator whose callback makes this call; None in all other threads."""
    return RUNNING.get(threading.get_ident()) if RUNNING else None


def _run(callback: Callback) -> None:
    try:
        callback()
    except Exception:
        logging.getLogger("hemiola").exception("a callback of a finished call failed")
