"""Listener: a listening socket whose thread does the handshake with every peer that connects, and never blocks on one.

A peer is untrusted until its handshake has ended, and untrusted peers cost a bounded amount: at most ``MAX_PENDING``
handshakes are under way, the oldest is dropped for the next, and each has ``patience`` seconds in all, however the
peer spaces its bytes. A member of the job that is dropped this way connects again. Only a hello whose proof was
checked reaches the owner of the listener, in the listener's thread.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.bounded_io import name_of
from hemiola.runtime.bootstrap.handshake import Admission, HandshakeReply

MAX_PENDING = 256
"""Handshakes under way at once; each holds a file descriptor and less than 5 KiB."""
PATIENCE_SECONDS = 10.0
PAUSE_SECONDS = 0.1
"""How long the listener accepts nothing when the process has no file descriptor left and no handshake to drop."""
OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
BACKLOG = 1024

Decide = Callable[[bytes], HandshakeReply]
"""Decides how to reply to a client whose proof was right, from its hello."""
TakeOver = Callable[[socket.socket, bytes], None]
"""Takes over the non-blocking socket of a client that has been welcomed."""
Watcher = Callable[[int], None]
"""Called with the events of ``selectors`` that a watched socket has; it must not block."""


@dataclass(slots=True)
class _PendingHandshake:
    """A connection whose handshake is under way."""

    sock: socket.socket
    admission: Admission
    deadline: float


class Listener:
    """Listens at one address of this host until it is closed."""

    def __init__(
        self,
        address: str,
        port: int,
        secret: bytes,
        *,
        decide: Decide,
        take_over: TakeOver,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        assert secret, "an empty secret proves nothing"
        self._secret, self._decide, self._take_over, self._patience = secret, decide, take_over, patience
        self._pending: dict[socket.socket, _PendingHandshake] = {}
        self._listening = _listen(address, port)
        self.address, self.port = self._listening.getsockname()[:2]
        self._paused_until: float | None = None
        self._closing = False
        self._close_lock = threading.Lock()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, self._wake)
        self._thread = threading.Thread(target=self._run, name=f"hemiola listener {self.port}", daemon=True)
        _LISTENERS.add(self)

    def open(self) -> None:
        """Begin to accept; whatever ``decide`` and ``take_over`` use must exist by now."""
        self._thread.start()

    def watch(self, sock: socket.socket, watcher: Watcher, events: int = selectors.EVENT_READ) -> None:
        """Call ``watcher`` with the events of a member's socket from now on; only from the listener's thread."""
        if sock in self._selector.get_map():
            self._selector.modify(sock, events, watcher)
        else:
            self._selector.register(sock, events, watcher)

    def drop(self, sock: socket.socket) -> None:
        """Close a watched socket; only from the listener's thread."""
        self._selector.unregister(sock)
        sock.close()

    def close(self) -> None:
        """End the thread and close every socket that the listener holds; a second call does nothing."""
        with self._close_lock:
            if self._closing:
                return
            _LISTENERS.discard(self)
            self._closing = True
            self._wake_sender.send(b"\0")
            if self._thread.ident is not None:
                self._thread.join()
            self._close_sockets()

    def _close_sockets(self) -> None:
        for sock in [key.fileobj for key in self._selector.get_map().values()]:
            assert isinstance(sock, socket.socket)
            sock.close()
        self._pending.clear()
        self._listening.close()
        self._wake_sender.close()
        self._selector.close()

    def _close_in_child(self) -> None:
        """After a fork the thread and the sockets belong to the parent; a copy here would keep them open."""
        self._closing = True
        self._close_lock = threading.Lock()
        self._close_sockets()

    def _run(self) -> None:
        while not self._closing:
            for key, events in self._selector.select(self._seconds_to_next_deadline()):
                # An earlier event of this round may have closed the socket of a later one.
                if isinstance(key.fileobj, socket.socket) and key.fileobj.fileno() >= 0:
                    key.data(events)
            self._drop_late()

    def _seconds_to_next_deadline(self) -> float | None:
        deadlines = [pending.deadline for pending in self._oldest()]
        if self._paused_until is not None:
            deadlines.append(self._paused_until)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _drop_late(self) -> None:
        now = time.monotonic()
        while any(pending.deadline <= now for pending in self._oldest()):
            self._drop_oldest()
        if self._paused_until is not None and self._paused_until <= now:
            self._paused_until = None
            self._selector.register(self._listening, selectors.EVENT_READ, self._accept)

    def _oldest(self) -> list[_PendingHandshake]:
        """The handshake that began first, if there is any; its deadline is the first too. A list of one or none."""
        return [next(iter(self._pending.values()))] if self._pending else []

    def _drop_oldest(self) -> None:
        for pending in self._oldest():
            self._drop_pending(pending)

    def _drop_pending(self, pending: _PendingHandshake) -> None:
        del self._pending[pending.sock]
        self.drop(pending.sock)

    def _wake(self, events: int) -> None:
        self._wake_receiver.recv(64)

    def _accept(self, events: int) -> None:
        if len(self._pending) >= MAX_PENDING:
            self._drop_oldest()
        try:
            sock, _ = self._listening.accept()
        except OSError as error:
            if error.errno in OUT_OF_RESOURCES:
                self._free_descriptor()
            return
        sock.setblocking(False)
        pending = _PendingHandshake(sock, Admission(self._secret), time.monotonic() + self._patience)
        self._pending[sock] = pending
        self._selector.register(sock, selectors.EVENT_READ, lambda events: self._advance(pending))

    def _free_descriptor(self) -> None:
        """Without a file descriptor left, drop the oldest handshake; where there is none, accept nothing for a while."""
        if self._pending:
            self._drop_oldest()
        else:
            self._selector.unregister(self._listening)
            self._paused_until = time.monotonic() + PAUSE_SECONDS

    def _advance(self, pending: _PendingHandshake) -> None:
        """Read what has arrived, up to the end of the handshake; a peer that disconnects or breaks the protocol is dropped."""
        admission = pending.admission
        try:
            data = pending.sock.recv(admission.missing)
            if not data:
                raise ConnectionAbortedError
            _send_at_once(pending.sock, admission.feed(data))
            if admission.missing:
                return
            welcome = admission.fault is None and self._welcome(pending)
        except BlockingIOError:
            return
        except OSError:
            welcome = False
        if welcome:
            del self._pending[pending.sock]
            self._selector.unregister(pending.sock)
            self._take_over(pending.sock, admission.hello)
        else:
            self._drop_pending(pending)

    def _welcome(self, pending: _PendingHandshake) -> bool:
        reply = self._decide(pending.admission.hello)
        _send_at_once(pending.sock, pending.admission.reply(reply))
        return reply is HandshakeReply.WELCOME


_LISTENERS: weakref.WeakSet[Listener] = weakref.WeakSet()


def _close_listeners_in_child() -> None:
    for listener in list(_LISTENERS):
        listener._close_in_child()
    _LISTENERS.clear()


os.register_at_fork(after_in_child=_close_listeners_in_child)


def _send_at_once(sock: socket.socket, data: bytes) -> None:
    """Send without blocking. A frame of the handshake fits into any send buffer, unless the peer stopped reading on purpose."""
    try:
        num_sent = sock.send(data) if data else 0
    except BlockingIOError:
        num_sent = 0
    if num_sent != len(data):
        raise ConnectionAbortedError


def _listen(address: str, port: int) -> socket.socket:
    try:
        family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConnectError(f"{address!r} is no address of this host: {error}") from error
    if ipaddress.ip_address(str(where[0]).partition("%")[0]).is_unspecified:
        raise ConnectError(
            f"listening at {address!r} would open every interface of this host; give the address of one"
        )
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise ConnectError(
            f"cannot listen at {name_of(address, port)}: {error.strerror or error}; give an address of this host "
            "and a port that nobody holds"
        ) from error
    return sock
