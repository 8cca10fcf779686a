"""LocalStore: a store within one process."""

from __future__ import annotations

import threading
import time

from hemiola.runtime.bootstrap.store.protocol import TIMEOUT_SECONDS, Store, counter, missing_key


class LocalStore(Store):
    """A store for ranks that are threads of one process."""

    def __init__(self, timeout: float = TIMEOUT_SECONDS) -> None:
        self._timeout = timeout
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = bytes(value)
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        deadline = time.monotonic() + self._timeout
        with self._changed:
            while key not in self._values:
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    raise missing_key(key, self._timeout)
                self._changed.wait(seconds)
            return self._values[key]

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = counter(key, self._values.get(key, b"0")) + amount
            self.set(key, str(total).encode())
            return total
