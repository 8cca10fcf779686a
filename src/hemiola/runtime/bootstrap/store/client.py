"""TcpStore: the client of the job's own store."""

from __future__ import annotations

import socket
import threading
import time

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.bounded_io import name_of, receive_exactly, send_all
from hemiola.runtime.bootstrap.connect import connect
from hemiola.runtime.bootstrap.store.messages import (
    AMOUNT,
    DONE,
    HELLO,
    MAX_VALUE_BYTES,
    REPLY,
    REQUEST,
    Operation,
    fault_of,
)
from hemiola.runtime.bootstrap.store.protocol import TIMEOUT_SECONDS, Store, missing_key


class TcpStore(Store):
    """A client of the StoreServer at ``host`` and ``port``, which may start later.

    A thread that waits for a key does not block others: each call under way has a connection to itself, and
    connections are reused by later calls.
    """

    def __init__(self, host: str, port: int, secret: bytes, timeout: float = TIMEOUT_SECONDS) -> None:
        self._host, self._port, self._secret, self._timeout = host, port, secret, timeout
        self._where = name_of(host, port)
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._busy: set[socket.socket] = set()
        self._closed = False
        self._give_back(self._borrow(time.monotonic() + timeout))

    def set(self, key: str, value: bytes) -> None:
        self._ask(Operation.SET, key, value)

    def get(self, key: str) -> bytes:
        return self._ask(Operation.GET, key)

    def add(self, key: str, amount: int) -> int:
        if not -(1 << 63) <= amount < 1 << 63:
            raise ConnectError(f"a counter of the store has 64 bits; {amount} has more")
        return int(self._ask(Operation.ADD, key, AMOUNT.pack(amount)))

    def close(self) -> None:
        """Close every connection; calls under way in other threads fail. A second call does nothing."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            for sock in self._busy:
                _shut_down(sock)

    def __enter__(self) -> TcpStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, operation: Operation, key: str, value: bytes = b"") -> bytes:
        name = key.encode()
        fault = fault_of(operation, len(name), len(value))
        if fault is not None:
            raise ConnectError(f"key {key[:40]!r}: {fault}")
        deadline = time.monotonic() + self._timeout
        sock = self._borrow(deadline)
        try:
            send_all(sock, REQUEST.pack(operation, len(name), len(value)) + name + value, deadline)
            status, length = REPLY.unpack(receive_exactly(sock, REPLY.size, deadline))
            if length > MAX_VALUE_BYTES:
                raise ConnectionAbortedError(f"it announced {length} bytes")
            answer = receive_exactly(sock, length, deadline)
        except TimeoutError:
            self._give_up(sock)
            if operation is Operation.GET:
                raise missing_key(key, self._timeout) from None
            raise ConnectError(
                f"the store at {self._where} did not answer within {self._timeout:g} s"
            ) from None
        except OSError as error:
            self._give_up(sock)
            raise ConnectError(
                f"the store at {self._where} was lost while key {key!r} was asked for: "
                f"{error.strerror or error}; rank 0, which holds it, has ended"
            ) from error
        self._give_back(sock)
        if status != DONE:
            raise ConnectError(
                f"the store at {self._where} refused key {key!r}: {answer.decode(errors='replace')}"
            )
        return answer

    def _borrow(self, deadline: float) -> socket.socket:
        with self._lock:
            self._require_open()
            if self._idle:
                sock = self._idle.pop()
                self._busy.add(sock)
                return sock
        try:
            sock = connect(self._host, self._port, self._secret, HELLO, deadline)
        except ConnectError as error:
            raise ConnectError(f"the store of the job, which rank 0 holds: {error}") from error
        with self._lock:
            self._busy.add(sock)
        return sock

    def _give_back(self, sock: socket.socket) -> None:
        with self._lock:
            self._busy.discard(sock)
            if not self._closed:
                self._idle.append(sock)
                return
        sock.close()

    def _give_up(self, sock: socket.socket) -> None:
        """Close a connection whose request failed: its next bytes could be part of the old reply."""
        with self._lock:
            self._busy.discard(sock)
        sock.close()

    def _require_open(self) -> None:
        if self._closed:
            raise ConnectError(f"the store at {self._where} is used after it was closed")


def _shut_down(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the peer has closed it already
