"""Blocking reads and writes that end at a deadline, a time of ``time.monotonic``."""

from __future__ import annotations

import socket
import time


def receive_exactly(sock: socket.socket, num_bytes: int, deadline: float) -> bytes:
    """Read exactly ``num_bytes`` bytes; TimeoutError at the deadline, ConnectionError when the peer closes before."""
    taken = bytearray()
    while len(taken) < num_bytes:
        sock.settimeout(remaining(deadline))
        part = sock.recv(num_bytes - len(taken))
        if not part:
            raise ConnectionAbortedError("the other end closed the connection")
        taken += part
    return bytes(taken)


def send_all(sock: socket.socket, data: bytes, deadline: float) -> None:
    """Send every byte, or raise TimeoutError at the deadline."""
    sock.settimeout(remaining(deadline))
    sock.sendall(data)


def remaining(deadline: float) -> float:
    """Seconds until the deadline, always more than 0; TimeoutError once it has passed."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the time is over")
    return seconds


def name_of(host: str, port: int) -> str:
    """An address as people write it: ``10.0.0.1:29500``, ``[::1]:29500``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
