"""``dial``: an authenticated connection to a process that may not listen yet."""

from __future__ import annotations

import socket
import time

from hemiola.errors import ConnectError
from hemiola.runtime.bounded_io import name_of, remaining
from hemiola.runtime.handshake import prove

FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.5
ATTEMPT_SECONDS = 10.0
"""For one attempt to open the connection: a host that comes up late is asked anew."""


def dial(
    host: str, port: int, secret: bytes, hello: bytes, deadline: float, *, source: str | None = None
) -> socket.socket:
    """Connect and prove membership, and try again until the deadline (of ``time.monotonic``).

    Tried again is what time can heal: nobody listens yet, the name is not known yet, the connection was
    dropped in a crowd. A peer that does not belong is a ConnectError at once. ``source`` is the local address
    to connect from. The socket is blocking and has TCP_NODELAY.
    """
    pause = FIRST_PAUSE_SECONDS
    reason = "no time was given"
    while time.monotonic() < deadline:
        try:
            return _attempt(host, port, secret, hello, deadline, source)
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    raise ConnectError(
        f"no connection to {name_of(host, port)} within the time: {reason}; check that the process there runs "
        "and that no firewall is between"
    )


def _attempt(
    host: str, port: int, secret: bytes, hello: bytes, deadline: float, source: str | None
) -> socket.socket:
    sock = socket.create_connection(
        (host, port),
        timeout=min(remaining(deadline), ATTEMPT_SECONDS),
        source_address=None if source is None else (source, 0),
    )
    try:
        if sock.getsockname() == sock.getpeername():
            # Where nobody listens at a port that the system also gives to clients, TCP can meet itself.
            raise ConnectionRefusedError("nobody listens there")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        prove(sock, secret, hello, deadline)
    except (OSError, ConnectError):
        sock.close()
        raise
    return sock
