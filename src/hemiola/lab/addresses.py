"""Addresses: the abstract sockets at which the keepers of labs listen, and how labs are listed."""

from __future__ import annotations

import os
import re
import socket
import struct
from pathlib import Path

from hemiola.errors import LabError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
TABLE = Path("/proc/net/unix")
LISTENS = "00010000"
"""The flags of a listening socket in the table of the kernel."""
CREDENTIALS = struct.Struct("3i")


def lab_address(name: str) -> str:
    """The abstract address of a lab of this user; it needs no file, and the kernel frees it when the keeper ends."""
    if not NAME.fullmatch(name):
        raise LabError(f"a lab's name is up to 40 letters, digits, dots and dashes, but is {name[:60]!r}")
    return f"{_prefix()}{name}"


def names() -> list[str]:
    """The names of this user's running labs; a lab that is still being built does not listen yet."""
    prefix = _prefix().replace("\0", "@")
    sockets = (line.split(maxsplit=7) for line in TABLE.read_text("utf-8", "replace").splitlines())
    listed = (fields[7:] for fields in sockets if len(fields) > 3 and fields[3] == LISTENS)
    return sorted(
        {name.removeprefix(prefix) for found in listed for name in found if name.startswith(prefix)}
    )


def is_own(peer: socket.socket) -> bool:
    """Whether the other end of a connection belongs to this user."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return bool(CREDENTIALS.unpack(credentials)[1] == os.geteuid())


def _prefix() -> str:
    return f"\0hemiola-lab-{os.geteuid()}-"
