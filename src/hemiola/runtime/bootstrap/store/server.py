"""StoreServer: the job's own store, which rank 0 holds in memory and serves over TCP."""

from __future__ import annotations

import secrets
import selectors
import socket
from collections import defaultdict
from dataclasses import dataclass

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.handshake import HandshakeReply
from hemiola.runtime.bootstrap.listener import PATIENCE_SECONDS, Listener
from hemiola.runtime.bootstrap.store.messages import (
    AMOUNT,
    DONE,
    HELLO,
    REFUSED,
    REPLY,
    REQUEST,
    Operation,
    fault_of,
)
from hemiola.runtime.bootstrap.store.protocol import counter

SECRET_BYTES = 32
READ_BYTES = 1 << 16
"""The most bytes read from a client at once, so that a large value does not delay the other clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    """How much a store holds before it refuses more."""

    num_keys: int = 1 << 18
    num_bytes: int = 256 << 20
    """The bytes of all keys and values together."""


class StoreServer:
    """Serves a store to every member that connects, from a thread of its own that never blocks on a client.

    Without a secret it draws one, for a parent process that passes it to its children.
    """

    def __init__(
        self,
        address: str = "127.0.0.1",
        port: int = 0,
        *,
        secret: bytes | None = None,
        limits: StoreLimits | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._limits = limits or StoreLimits()
        self._values: dict[bytes, bytes] = {}
        self._num_bytes = 0
        self._waiting: defaultdict[bytes, list[_Client]] = defaultdict(list)
        self.secret = secrets.token_bytes(SECRET_BYTES) if secret is None else secret
        self._listener = Listener(
            address, port, self.secret, decide=_decide, take_over=self._take_over, patience=patience
        )
        self.address: str = self._listener.address
        self.port: int = self._listener.port
        self._listener.open()

    def close(self) -> None:
        """End the thread and close every connection; a second call does nothing."""
        self._listener.close()

    def __enter__(self) -> StoreServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_over(self, sock: socket.socket, hello: bytes) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(sock)
        self._listener.watch(sock, lambda events: self._serve(client, events))

    def _serve(self, client: _Client, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send(client)
            elif client.take():
                self._execute(client)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        if client.waits_for is not None:
            self._forget(client, client.waits_for)
        self._listener.drop(client.sock)

    def _forget(self, client: _Client, key: bytes) -> None:
        client.waits_for = None
        self._waiting[key].remove(client)
        if not self._waiting[key]:
            del self._waiting[key]

    def _execute(self, client: _Client) -> None:
        """Do what a complete request asks for. The reply may be sent later, and the next request is read only after it."""
        operation, key, value = client.request()
        if operation is Operation.GET and key not in self._values:
            client.waits_for = key
            self._waiting[key].append(client)
            return
        try:
            self._reply(client, DONE, self._apply(operation, key, value))
        except ConnectError as error:
            self._reply(client, REFUSED, str(error).encode())

    def _apply(self, operation: Operation, key: bytes, value: bytes) -> bytes:
        if operation is Operation.GET:
            return self._values[key]
        if operation is Operation.SET:
            self._write(key, value)
            return b""
        (amount,) = AMOUNT.unpack(value)
        total = counter(key.decode(errors="replace"), self._values.get(key, b"0")) + amount
        self._write(key, str(total).encode())
        return self._values[key]

    def _write(self, key: bytes, value: bytes) -> None:
        before = self._values.get(key)
        grown = len(value) - len(before) if before is not None else len(key) + len(value)
        if before is None and len(self._values) >= self._limits.num_keys:
            raise ConnectError(f"it holds {self._limits.num_keys} keys, and no more fit")
        if self._num_bytes + grown > self._limits.num_bytes:
            raise ConnectError(f"it holds {self._num_bytes} bytes, and {grown} more do not fit")
        self._values[key] = value
        self._num_bytes += grown
        for client in list(self._waiting.get(key, ())):
            self._forget(client, key)
            self._reply(client, DONE, value)

    def _reply(self, client: _Client, status: int, value: bytes) -> None:
        client.outgoing = memoryview(REPLY.pack(status, len(value)) + value)
        self._listener.watch(client.sock, lambda events: self._serve(client, events), selectors.EVENT_WRITE)

    def _send(self, client: _Client) -> None:
        client.outgoing = client.outgoing[client.sock.send(client.outgoing) :]
        if not client.outgoing:
            self._listener.watch(client.sock, lambda events: self._serve(client, events))


class _Client:
    """The connection of a member, with the request that is being received or the reply that is being sent."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.waits_for: bytes | None = None
        self.outgoing = memoryview(b"")
        self._incoming = bytearray()

    def take(self) -> bool:
        """Read what has arrived; returns whether a request is complete. ConnectionError ends the connection."""
        missing = self._missing()
        data = self.sock.recv(min(missing, READ_BYTES))
        if not data or self.waits_for is not None:
            raise ConnectionAbortedError("it closed the connection, or spoke before it was answered")
        self._incoming += data
        return len(data) == missing and self._missing() == 0

    def request(self) -> tuple[Operation, bytes, bytes]:
        """Remove the complete request from the buffer and return it."""
        operation, key_bytes, _ = REQUEST.unpack_from(self._incoming)
        start = REQUEST.size + key_bytes
        key, value = bytes(self._incoming[REQUEST.size : start]), bytes(self._incoming[start:])
        self._incoming = bytearray()
        return Operation(operation), key, value

    def _missing(self) -> int:
        """How many bytes are missing: first of the header, and when that is complete, of the whole request."""
        if len(self._incoming) < REQUEST.size:
            return REQUEST.size - len(self._incoming)
        operation, key_bytes, value_bytes = REQUEST.unpack_from(self._incoming)
        if fault_of(operation, key_bytes, value_bytes) is not None:
            raise ConnectionAbortedError("its request breaks the limits")
        return REQUEST.size + int(key_bytes) + int(value_bytes) - len(self._incoming)


def _decide(hello: bytes) -> HandshakeReply:
    return HandshakeReply.WELCOME if hello == HELLO else HandshakeReply.UNEXPECTED
