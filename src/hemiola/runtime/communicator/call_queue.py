"""CallQueue: runs the asynchronous calls of a communicator one after another in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from hemiola.runtime.communicator.handle import Handle

QueuedCall = Callable[[], None]


class CallQueue:
    """The asynchronous calls of one communicator, in order. Its thread starts with the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: SimpleQueue[tuple[QueuedCall, Handle] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.num_pending = 0
        """The number of calls that have not ended; a caller that sees 0 may run its own call in its own thread."""

    def put(self, task: QueuedCall) -> Handle:
        """Add a call to the end of the queue."""
        handle = Handle()
        with self._lock:
            self.num_pending += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._tasks.put((task, handle))
        return handle

    def close(self) -> None:
        """Wait for the calls that are under way, and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._tasks.put(None)
            if thread is not threading.current_thread():
                thread.join()

    def _work(self) -> None:
        while (item := self._tasks.get()) is not None:
            task, handle = item
            error: BaseException | None = None
            try:
                task()
            except BaseException as caught:  # noqa: BLE001 (Handle.wait raises it again)
                error = caught
            with self._lock:
                self.num_pending -= 1
            del item, task  # so that the arrays of a call are freed as soon as it has ended
            handle.finish(error)
            del handle
