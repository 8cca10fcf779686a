"""Processes: finds the processes in namespaces, by mark or ancestor, and ends them."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

MARK = "HEMIOLA_LAB_MARK"
"""The environment variable that marks processes that were started together; children inherit it."""
GRACE_SECONDS = 1.0
END_SECONDS = 10.0
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True)


def processes_in(networks: Collection[int]) -> list[int]:
    """The processes in network namespaces that are given by their inodes."""
    return [pid for pid in _all_pids() if _network_of(pid) in networks]


def end_processes(networks: Collection[int], which: Callable[[int], bool] = lambda pid: True) -> None:
    """End the processes in namespaces for which ``which`` is true, with SIGTERM and then SIGKILL; returns when they ended."""
    begin = time.monotonic()
    asked: set[int] = set()
    while left := [pid for pid in processes_in(networks) if which(pid)]:
        elapsed = time.monotonic() - begin
        if elapsed > END_SECONDS:  # a process that survives this long is blocked in the kernel
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


def belongs_to(pid: int, mark: str, ancestor: int) -> bool:
    """Whether a process has a mark or descends from ``ancestor``."""
    return has_mark(pid, mark) or descends_from(pid, {ancestor})


def has_mark(pid: int, mark: str) -> bool:
    """Whether a process was started with a mark."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in variables


def descends_from(pid: int, ancestors: Collection[int]) -> bool:
    """Whether one of ``ancestors`` is an ancestor of a process."""
    while pid > 1:
        pid = _parent_of(pid)
        if pid in ancestors:
            return True
    return False


def adopt_orphans() -> None:
    """Make this process the parent of all descendants whose own parents end."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """In a child process: ask the kernel to kill it when its parent dies."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _all_pids() -> Iterator[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and int(entry) != os.getpid())


def _network_of(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:  # it has ended
        return None


def _parent_of(pid: int) -> int:
    """The parent of a process, 0 where it has ended."""
    try:
        # The state and the parent follow the name, which is in parentheses and may contain any character.
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
