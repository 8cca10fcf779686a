"""FirstMessages: the messages of a direction between two ranks that come before their group of two is made."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from hemiola.runtime.communicator.handle import CallEnd


class FirstMessages:
    """Messages in order, each of which waits until the group is made.

    Making it waits for the other rank and runs Python, which the progress thread of the core never does. So a thread of
    Python makes it with the first message, and runs the messages that came meanwhile.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._messages: deque[tuple[Callable[[], object], CallEnd]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, message: Callable[[], object]) -> CallEnd:
        """Add a message; the thread starts with the first and ends with the last."""
        outcome = CallEnd()
        with self._lock:
            self._messages.append((message, outcome))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
        return outcome

    def is_empty(self) -> bool:
        """Whether every message has ended."""
        return self._thread is None

    def wait(self) -> None:
        """Wait until every message has ended."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while True:
            message, outcome = self._messages[0]
            error: BaseException | None = None
            try:
                message()
            except BaseException as caught:  # noqa: BLE001 (Handle.wait raises it again)
                error = caught
            del message  # so that the array is freed as soon as its message has ended
            with self._lock:
                self._messages.popleft()
                if not self._messages:
                    self._thread = None
            outcome.finish(error)
            if self._thread is not threading.current_thread():
                return
