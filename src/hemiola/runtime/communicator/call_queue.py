"""CallQueue: the asynchronous calls of an engine, which the progress thread of the C++ core runs in order.

The progress thread never takes the GIL, so it cannot let go of Python objects. The arrays of a call are let go by whoever
first sees that it has ended: its handle, or the next call that is put.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from hemiola import _core
from hemiola._core import RunFailure
from hemiola.runtime.communicator.callback_thread import CallbackThread
from hemiola.runtime.communicator.handle import Handle


class CallQueue:
    """The asynchronous calls of one engine, in order."""

    def __init__(
        self,
        endpoint: _core.Endpoint,
        callbacks: CallbackThread,
        error_of: Callable[[RunFailure], BaseException],
    ) -> None:
        self._endpoint = endpoint
        self._callbacks = callbacks
        self._error_of = error_of
        self._lock = threading.Lock()
        self.pending: deque[_core.StartedCall] = deque()
        """The calls that may not have ended. A caller that sees none may run its own call in its own thread."""

    def put(self, call: _core.Call, source: int, target: int, owner: object) -> Handle:
        """Add a call on memory at two addresses to the end of the queue; ``owner`` keeps the memory until the call has ended."""
        with self._lock:
            self._let_go()
            started = call.start_at(source, target, (call, owner))
            self.pending.append(started)
        return Handle(started, lambda: self._error(started), self._callbacks)

    def is_empty(self) -> bool:
        """Whether every call has ended."""
        if self.pending:
            with self._lock:
                self._let_go()
        return not self.pending

    def close(self) -> None:
        """Wait for the calls that were put, then for their callbacks."""
        self._endpoint.finish_queued()
        self._callbacks.close()
        self.is_empty()

    def _let_go(self) -> None:
        while self.pending and self.pending[0].done():
            self.pending.popleft()

    def _error(self, started: _core.StartedCall) -> BaseException | None:
        failure = started.failure()
        return None if failure is None else self._error_of(failure)
