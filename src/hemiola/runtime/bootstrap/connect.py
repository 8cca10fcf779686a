"""``connect``: opens an authenticated connection to a process that may not listen yet."""

from __future__ import annotations

import socket
import time

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.bounded_io import name_of, remaining
from hemiola.runtime.bootstrap.handshake import prove

FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.5
ATTEMPT_SECONDS = 10.0
"""The limit of one attempt: after it a new attempt begins, because a host that starts late never saw the old one."""


def connect(
    host: str, port: int, secret: bytes, hello: bytes, deadline: float, *, source: str | None = None
) -> socket.socket:
    """Connect and prove membership, and try again until the deadline (of ``time.monotonic``).

    An attempt is repeated after a failure that may be temporary: nobody listens yet, the host name is not known yet,
    or the listener dropped the connection because it had too many. A peer that does not belong to the job raises
    ConnectError at once. ``source`` is the local address to connect from. The socket is blocking and has TCP_NODELAY.
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
            # TCP can connect a socket to itself when nobody listens at a port of the ephemeral range.
            raise ConnectionRefusedError("nobody listens there")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        prove(sock, secret, hello, deadline)
    except (OSError, ConnectError):
        sock.close()
        raise
    return sock
