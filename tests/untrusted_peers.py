"""Who else connects to a port: an independent client and server of the handshake, and people with other plans.

The handshake is written here a second time, from its description alone, so that the tests can speak it
wrongly, in pieces, or again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OPENING = b"HEMIOLA\x01"
GENEROUS_SECONDS = 30.0
"""For what must happen; a test that needs them all has failed."""

Where = tuple[str, int]


def soon() -> float:
    return time.monotonic() + GENEROUS_SECONDS


def held_by_process() -> set[object]:
    """Every thread and every open file; what a test adds to them it has left behind."""
    files = Path("/proc/self/fd")
    opened = {
        (name, os.readlink(files / name)) for name in os.listdir(files) if os.path.lexists(files / name)
    }
    return {*opened, *threading.enumerate()}


def client_frame(secret: bytes, client: bytes, server: bytes, hello: bytes) -> bytes:
    framed = struct.pack(">H", len(hello)) + hello
    return framed + hmac.new(secret, b"client" + client + server + framed, hashlib.sha256).digest()


def server_frame(secret: bytes, client: bytes, server: bytes, hello: bytes, answer: int = 0) -> bytes:
    framed = struct.pack(">H", len(hello)) + hello
    told = b"server" + bytes([answer]) + client + server + framed
    return bytes([answer]) + hmac.new(secret, told, hashlib.sha256).digest()


def read(sock: socket.socket, num_bytes: int) -> bytes:
    taken = b""
    while len(taken) < num_bytes and (part := sock.recv(num_bytes - len(taken))):
        taken += part
    return taken


def call(where: Where) -> socket.socket:
    return socket.create_connection(where, timeout=GENEROUS_SECONDS)


def is_dropped(sock: socket.socket) -> bool:
    """Whether the other end closes this connection; waits for it, and reads what comes before."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def join_by_hand(
    sock: socket.socket, secret: bytes, hello: bytes, *, then: bytes = b""
) -> tuple[bytes, bytes]:
    """The client's side, with ``then`` sent in the same piece as its last frame: all it sent, and the answer."""
    client = OPENING + os.urandom(32)
    sock.sendall(client)
    last = client_frame(secret, client, read(sock, 40), hello)
    sock.sendall(last + then)
    return client + last, read(sock, 33)


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[Where]:
    """A server that treats one connection as ``serve`` does and then closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(GENEROUS_SECONDS)
        thread = threading.Thread(target=_serve_one, args=(listening, serve))
        thread.start()
        yield listening.getsockname()[:2]
        thread.join()


def _serve_one(listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    sock, _ = listening.accept()
    sock.settimeout(GENEROUS_SECONDS)
    with sock, suppress(ConnectionError):
        serve(sock)


def scan(where: Where) -> None:
    """Opens the port, and is gone: once with a farewell and once without."""
    call(where).close()
    with call(where) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def browse(where: Where) -> None:
    with call(where) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: nobody\r\n\r\n")
        assert is_dropped(sock)


def flood(where: Where) -> None:
    """A megabyte of nothing."""
    with call(where) as sock:
        try:
            sock.sendall(bytes(1 << 20))
        except ConnectionError:
            return
        assert is_dropped(sock)


def guess(where: Where) -> None:
    """Knows the protocol, but not the secret."""
    with call(where) as sock:
        _, answer = join_by_hand(sock, b"not the secret of this job", b"link" + bytes(12))
        assert answer[:1] == b"\x01"
        assert is_dropped(sock)


def exaggerate(where: Where) -> None:
    """Announces a hello of 64 KiB."""
    with call(where) as sock:
        sock.sendall(OPENING + bytes(32) + b"\xff\xff")
        assert is_dropped(sock)


def come_from_the_future(where: Where) -> None:
    with call(where) as sock:
        sock.sendall(b"HEMIOLA\x02")
        assert read(sock, 8) == OPENING
        assert is_dropped(sock)


ATTACKS: tuple[Callable[[Where], None], ...] = (scan, browse, flood, guess, exaggerate, come_from_the_future)
