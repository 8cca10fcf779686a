"""A gate: a listening socket whose thread admits members and drops strangers, and never waits for any of them.

Strangers cost what is bounded: at most ``MAX_STRANGERS`` handshakes are under way, the oldest gives way to
the next, and each has ``patience`` seconds in all, however it spaces its bytes. A member that loses its place
in a crowd connects again. Only a proven hello reaches the owner, in the gate's thread.
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
from hemiola.runtime.bounded_io import name_of
from hemiola.runtime.handshake import Admission, Answer

MAX_STRANGERS = 256
"""Handshakes under way at once; each holds a file descriptor and less than 5 KiB."""
PATIENCE_SECONDS = 10.0
PAUSE_SECONDS = 0.1
"""How long accepting rests when the process has no file descriptor left and no stranger to drop."""
NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
BACKLOG = 1024

Judge = Callable[[bytes], Answer]
"""Decides on a proven hello before the client hears the answer."""
Enter = Callable[[socket.socket, bytes], None]
"""Takes over the socket, which does not block, of a client that has been welcomed."""
Watcher = Callable[[int], None]
"""Told which events of ``selectors`` a watched socket has; it must not wait."""


@dataclass(slots=True)
class _Stranger:
    """A connection whose handshake is under way."""

    sock: socket.socket
    admission: Admission
    deadline: float


class Gate:
    """Listens at one address of this host until it is closed."""

    def __init__(
        self,
        address: str,
        port: int,
        secret: bytes,
        *,
        judge: Judge,
        enter: Enter,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        assert secret, "an empty secret proves nothing"
        self._secret, self._judge, self._enter, self._patience = secret, judge, enter, patience
        self._strangers: dict[socket.socket, _Stranger] = {}
        self._listening = _listen(address, port)
        self.address, self.port = self._listening.getsockname()[:2]
        self._rests_until: float | None = None
        self._closing = False
        self._close_lock = threading.Lock()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, self._wake)
        self._thread = threading.Thread(target=self._run, name=f"hemiola gate {self.port}", daemon=True)
        _GATES.add(self)

    def open(self) -> None:
        """Begin to let members in; what ``judge`` and ``enter`` use must be there by now."""
        self._thread.start()

    def watch(self, sock: socket.socket, watcher: Watcher, events: int = selectors.EVENT_READ) -> None:
        """Tell ``watcher`` of a member's events from now on; only from the gate's thread."""
        if sock in self._selector.get_map():
            self._selector.modify(sock, events, watcher)
        else:
            self._selector.register(sock, events, watcher)

    def drop(self, sock: socket.socket) -> None:
        """Close a watched socket; only from the gate's thread."""
        self._selector.unregister(sock)
        sock.close()

    def close(self) -> None:
        """End the thread and close every socket that the gate holds; a second call does nothing."""
        with self._close_lock:
            if self._closing:
                return
            _GATES.discard(self)
            self._closing = True
            self._wake_sender.send(b"\0")
            if self._thread.ident is not None:
                self._thread.join()
            self._close_sockets()

    def _close_sockets(self) -> None:
        for sock in [key.fileobj for key in self._selector.get_map().values()]:
            assert isinstance(sock, socket.socket)
            sock.close()
        self._strangers.clear()
        self._listening.close()
        self._wake_sender.close()
        self._selector.close()

    def _leave_in_child(self) -> None:
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
        deadlines = [stranger.deadline for stranger in self._oldest()]
        if self._rests_until is not None:
            deadlines.append(self._rests_until)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _drop_late(self) -> None:
        now = time.monotonic()
        while any(stranger.deadline <= now for stranger in self._oldest()):
            self._drop_oldest()
        if self._rests_until is not None and self._rests_until <= now:
            self._rests_until = None
            self._selector.register(self._listening, selectors.EVENT_READ, self._accept)

    def _oldest(self) -> list[_Stranger]:
        """The stranger that came first, if there is any; its deadline is the first too."""
        return [next(iter(self._strangers.values()))] if self._strangers else []

    def _drop_oldest(self) -> None:
        for stranger in self._oldest():
            self._drop_stranger(stranger)

    def _drop_stranger(self, stranger: _Stranger) -> None:
        del self._strangers[stranger.sock]
        self.drop(stranger.sock)

    def _wake(self, events: int) -> None:
        self._wake_receiver.recv(64)

    def _accept(self, events: int) -> None:
        if len(self._strangers) >= MAX_STRANGERS:
            self._drop_oldest()
        try:
            sock, _ = self._listening.accept()
        except OSError as error:
            if error.errno in NO_ROOM:
                self._make_room()
            return
        sock.setblocking(False)
        stranger = _Stranger(sock, Admission(self._secret), time.monotonic() + self._patience)
        self._strangers[sock] = stranger
        self._selector.register(sock, selectors.EVENT_READ, lambda events: self._advance(stranger))

    def _make_room(self) -> None:
        """No file descriptor is left: the oldest stranger gives way, and where there is none, accepting rests."""
        if self._strangers:
            self._drop_oldest()
        else:
            self._selector.unregister(self._listening)
            self._rests_until = time.monotonic() + PAUSE_SECONDS

    def _advance(self, stranger: _Stranger) -> None:
        """Take what has arrived, up to the end of the handshake; who breaks off or breaks a rule is dropped."""
        admission = stranger.admission
        try:
            data = stranger.sock.recv(admission.missing)
            if not data:
                raise ConnectionAbortedError
            _send_at_once(stranger.sock, admission.feed(data))
            if admission.missing:
                return
            welcome = admission.fault is None and self._welcome(stranger)
        except BlockingIOError:
            return
        except OSError:
            welcome = False
        if welcome:
            del self._strangers[stranger.sock]
            self._selector.unregister(stranger.sock)
            self._enter(stranger.sock, admission.hello)
        else:
            self._drop_stranger(stranger)

    def _welcome(self, stranger: _Stranger) -> bool:
        answer = self._judge(stranger.admission.hello)
        _send_at_once(stranger.sock, stranger.admission.answer(answer))
        return answer is Answer.WELCOME


_GATES: weakref.WeakSet[Gate] = weakref.WeakSet()


def _leave_gates_in_child() -> None:
    for gate in list(_GATES):
        gate._leave_in_child()
    _GATES.clear()


os.register_at_fork(after_in_child=_leave_gates_in_child)


def _send_at_once(sock: socket.socket, data: bytes) -> None:
    """Frames of a handshake fit into any send buffer; where one does not, the other end plays a game."""
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
