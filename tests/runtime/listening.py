"""Where a process listens, as the kernel says."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

LISTEN = "0A"


def listening_at(process: int) -> list[tuple[str, int]]:
    """Address and port of every TCP socket that a process listens at."""
    own = _sockets_of(process)
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text("ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and fields[9] in own:
                address, port = fields[1].split(":")
                found.append((_address(address), int(port, 16)))
    return sorted(found)


def _sockets_of(process: int) -> set[str]:
    """Inodes of the sockets that a process has open."""
    inodes = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        try:
            kind, _, inode = os.readlink(link).partition(":")
        except FileNotFoundError:
            continue  # closed in the meantime
        if kind == "socket":
            inodes.add(inode.strip("[]"))
    return inodes


def _address(written: str) -> str:
    """The kernel writes addresses as words in the order of this machine's bytes."""
    words = [bytes.fromhex(written[k : k + 8])[::-1] for k in range(0, len(written), 8)]
    return str(ipaddress.ip_address(b"".join(words)))
