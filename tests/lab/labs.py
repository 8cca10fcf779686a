"""Labs for tests: whether they can be made here, and what is left of them."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from hemiola.lab import namespaces

OBSTACLE = namespaces.obstacle()
NEEDS_LAB = pytest.mark.skipif(OBSTACLE is not None, reason=f"no lab can be made here: {OBSTACLE}")


def new_name() -> str:
    """A name that no other test has."""
    return f"test-{secrets.token_hex(5)}"


def networks() -> set[int]:
    """Networks in which a process runs or that one holds open."""
    found = set()
    for pid in (entry for entry in os.listdir("/proc") if entry.isdecimal()):
        try:
            found.add(os.stat(f"/proc/{pid}/ns/net").st_ino)
            for descriptor in os.scandir(f"/proc/{pid}/fd"):
                if os.readlink(descriptor.path).startswith("net:["):
                    found.add(os.stat(descriptor.path).st_ino)
        except OSError:
            continue
    return found


def processes_with(text: str) -> list[int]:
    """Processes with a text among their arguments or variables, but this one."""
    found = []
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdecimal()):
        if pid == os.getpid():
            continue
        try:
            told = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if text.encode() in told:
            found.append(pid)
    return found
