"""Processes: who runs inside of namespaces, and their end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

MARK = "HEMIOLA_LAB_MARK"
"""The variable by which processes that were started together are known, with all their children."""
GRACE_SECONDS = 1.0
END_SECONDS = 10.0


def processes_in(networks: Collection[int], mark: str | None = None) -> list[int]:
    """Processes in namespaces, by the inode of their network; with a mark, only those that carry it."""
    return [
        pid for pid in _all_pids() if _network_of(pid) in networks and (mark is None or _has_mark(pid, mark))
    ]


def end_processes(networks: Collection[int], mark: str | None = None) -> None:
    """End them, politely first, and return when they are gone."""
    begin = time.monotonic()
    asked: set[int] = set()
    while left := processes_in(networks, mark):
        elapsed = time.monotonic() - begin
        if elapsed > END_SECONDS:  # only a process that the kernel holds on to
            return
        for pid in left:
            with suppress(ProcessLookupError):
                if elapsed > GRACE_SECONDS:
                    os.kill(pid, signal.SIGKILL)
                elif pid not in asked:
                    os.kill(pid, signal.SIGTERM)
                    os.kill(pid, signal.SIGCONT)
                    asked.add(pid)
        time.sleep(0.01)


def _all_pids() -> Iterator[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and int(entry) != os.getpid())


def _network_of(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:  # it has ended
        return None


def _has_mark(pid: int, mark: str) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in variables
