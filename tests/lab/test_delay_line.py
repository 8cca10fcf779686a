"""The delay line: frames come out in order, whole, once, and not before their time."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hemiola import _core


@contextmanager
def line(delay: float, num: int = 1) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Pairs of sockets, each joined through a delay line."""
    outer, inner = [], []
    for _ in range(num):
        (near, near_end), (far, far_end) = (
            socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)
        )
        for end in (near_end, far_end):
            end.setblocking(False)
        for end in (near, far):
            end.settimeout(10)
        outer.append((near, far))
        inner.append((near_end, far_end))
    stop, stopping = os.pipe()
    counts: list[_core.DelayCounts] = []
    lines = [_core.DelayLine(a.fileno(), b.fileno(), delay) for a, b in inner]
    carrier = threading.Thread(target=lambda: counts.append(_core.carry_frames(lines, stop)))
    carrier.start()
    try:
        yield outer
    finally:
        os.close(stopping)
        carrier.join(10)
        os.close(stop)
        for pair in (*outer, *inner):
            for end in pair:
                end.close()
    assert counts, "the line did not stop"


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.05])
def test_frames_arrive_in_order_and_not_early(delay: float) -> None:
    with line(delay) as [(near, far)]:
        for sender, receiver in ((near, far), (far, near)):
            sent = []
            for number in range(50):
                sent.append((time.monotonic(), number.to_bytes(2, "big") + os.urandom(number * 20)))
                sender.send(sent[-1][1])
            for begin, frame in sent:
                assert receiver.recv(1 << 16) == frame
                assert time.monotonic() - begin >= delay


def test_lines_do_not_mix() -> None:
    with line(0.001, 3) as pairs:
        for number, (near, far) in enumerate(pairs):
            near.send(f"up {number}".encode())
            far.send(f"down {number}".encode())
        for number, (near, far) in enumerate(pairs):
            assert far.recv(100) == f"up {number}".encode()
            assert near.recv(100) == f"down {number}".encode()
