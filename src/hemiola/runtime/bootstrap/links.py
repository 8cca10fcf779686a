"""Links between ranks of different hosts: ``connect_link`` opens one, a LinkListener accepts it at the other end."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.connect import connect
from hemiola.runtime.bootstrap.handshake import HandshakeReply
from hemiola.runtime.bootstrap.listener import PATIENCE_SECONDS, Listener

TAG = b"link"
LINK_NUMBERS = struct.Struct(">III")
MAX_GROUP_BYTES = 1024
MAX_NUMBER = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class LinkHello:
    """Which link a connection is to be; the key under which the accepting rank finds it."""

    group: str
    """Name of the communicator."""
    rank: int
    """Who connects, in the numbering of the group."""
    target: int
    """The rank that is meant. Private addresses repeat between hosts, so a connection to the wrong host is recognised by this."""
    channel: int = 0
    """Tells the connections between two ranks apart."""

    def __post_init__(self) -> None:
        if len(self.group.encode()) > MAX_GROUP_BYTES:
            raise ConnectError(
                f"the name of a group has at most {MAX_GROUP_BYTES} bytes: {self.group[:40]!r}..."
            )
        for number in (self.rank, self.target, self.channel):
            assert 0 <= number <= MAX_NUMBER, f"{number} is no rank and no channel"

    def pack(self) -> bytes:
        return TAG + LINK_NUMBERS.pack(self.rank, self.target, self.channel) + self.group.encode()

    @staticmethod
    def unpack(data: bytes) -> LinkHello | None:
        """The hello that packs to ``data``; None where ``data`` is no such hello, because a member connected to the wrong port."""
        start = len(TAG) + LINK_NUMBERS.size
        if len(data) < start or len(data) > start + MAX_GROUP_BYTES or not data.startswith(TAG):
            return None
        try:
            group = data[start:].decode()
        except UnicodeDecodeError:
            return None
        rank, target, channel = LINK_NUMBERS.unpack_from(data, len(TAG))
        return LinkHello(group, rank, target, channel)


Arrive = Callable[[LinkHello, socket.socket], None]
"""Called with every link that was accepted; the callee owns the socket."""


def connect_link(
    address: str, port: int, secret: bytes, hello: LinkHello, deadline: float, *, source: str | None = None
) -> socket.socket:
    """A blocking socket to the LinkListener at ``address`` and ``port``, with TCP_NODELAY, announced as ``hello``.

    Tries again until the deadline, a time of ``time.monotonic``, while nobody listens; ``source`` is the local
    address to connect from. ConnectError when the time is over or the other end does not belong.
    """
    try:
        return connect(address, port, secret, hello.pack(), deadline, source=source)
    except ConnectError as error:
        raise type(error)(
            f"rank {hello.rank} of group {hello.group!r} cannot connect to rank {hello.target}: {error}"
        ) from error


class LinkListener:
    """Accepts the links of this process, for any number of groups, at one address and a port of its own.

    Any thread may call it. Only peers that proved to know the secret become links. ``arrive`` is called with every
    link as soon as it is accepted, in the listener's thread; without ``arrive`` a link is kept until ``take`` asks for it.
    """

    def __init__(
        self, address: str, secret: bytes, *, arrive: Arrive | None = None, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._arrive = arrive
        self._arrived = threading.Condition()
        self._waiting: dict[LinkHello, socket.socket] = {}
        self._closed = False
        self._listener = Listener(
            address, 0, secret, decide=self._decide, take_over=self._take_over, patience=patience
        )
        self.address: str = self._listener.address
        self.port: int = self._listener.port
        self._listener.open()

    def take(self, hello: LinkHello, deadline: float) -> socket.socket:
        """Wait for the link that is announced as ``hello``; its blocking socket, which is then the caller's.

        A link that its other end has closed meanwhile is dropped: the peer gave up and will connect again.
        ConnectError at the deadline, a time of ``time.monotonic``, or when the listener is closed.
        """
        with self._arrived:
            while not self._closed:
                sock = self._waiting.pop(hello, None)
                if sock is not None and not _has_ended(sock):
                    return sock
                if sock is not None:
                    sock.close()
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    raise ConnectError(
                        f"rank {hello.rank} of group {hello.group!r} did not connect to rank {hello.target} "
                        f"(channel {hello.channel}) within the time; check that it runs and can reach "
                        f"{self.address}, or choose another interface with HEMIOLA_IFNAME"
                    )
                self._arrived.wait(seconds)
            raise ConnectError(f"the listener was closed while it waited for rank {hello.rank}")

    def discard(self, group: str) -> None:
        """Close the links of a group that arrived and were not taken."""
        with self._arrived:
            for hello in [hello for hello in self._waiting if hello.group == group]:
                self._waiting.pop(hello).close()

    def close(self) -> None:
        """End the thread and close what was not taken; links that were taken stay. A second call does nothing."""
        with self._arrived:
            self._closed = True
            self._arrived.notify_all()
        self._listener.close()
        with self._arrived:
            while self._waiting:
                self._waiting.popitem()[1].close()

    def __enter__(self) -> LinkListener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _decide(self, hello: bytes) -> HandshakeReply:
        link = LinkHello.unpack(hello)
        if link is None:
            return HandshakeReply.UNEXPECTED
        with self._arrived:
            before = self._waiting.get(link)
            if before is not None and not _has_ended(before):
                return HandshakeReply.DUPLICATE
            if before is not None:
                self._waiting.pop(link).close()
        return HandshakeReply.WELCOME

    def _take_over(self, sock: socket.socket, hello: bytes) -> None:
        link = LinkHello.unpack(hello)
        assert link is not None, "only a hello that _decide accepted gets here"
        sock.setblocking(True)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._arrive is not None:
            self._arrive(link, sock)
            return
        with self._arrived:
            self._waiting[link] = sock
            self._arrived.notify_all()


def _has_ended(sock: socket.socket) -> bool:
    """Whether the other end has closed the connection; bytes that wait there stay unread."""
    try:
        return sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
