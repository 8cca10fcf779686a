"""What processes hold: descriptors, threads and the shared memory of communicators."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MEMORY_NAME = "/memfd:hemiola"
"""How the kernel shows the segments of communicators, in tables of descriptors and of mappings."""
MAPS_INODE = 4
"""The column of a mapping's inode."""
NAMED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the process holds that asks; equal before a communicator is made and after it is closed."""

    descriptors: tuple[str, ...]
    """What every descriptor is, sorted; sockets and pipes without their numbers."""
    threads: tuple[str, ...]
    segments: frozenset[int]

    @staticmethod
    def now(store_port: int) -> Holdings:
        """Connections to the store at this port are the store's own, and not counted."""
        paths = (path for path in _descriptors("self") if _peer_port(int(path.name)) != store_port)
        return Holdings(
            tuple(sorted(os.readlink(path).partition(":[")[0] for path in paths)),
            tuple(sorted(thread.name for thread in threading.enumerate())),
            segments_of("self"),
        )


def segments_of(process: int | str) -> frozenset[int]:
    """The segments that a process has open or mapped, by inode."""
    return frozenset((*_open_segments(process), *_mapped_segments(process)))


def holders_of(segments: Collection[int]) -> list[int]:
    """The processes of this machine that have any of these segments open or mapped."""
    processes = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in processes if not segments_of(process).isdisjoint(segments)]


def named_memory() -> list[str]:
    """Shared memory of ours that has a name, and would stay when every process has ended."""
    return [name for name in os.listdir(NAMED_MEMORY) if "hemiola" in name]


def links_of_this_process(store_port: int) -> Iterator[socket.socket]:
    """Its connections to other ranks, as copies that are closed again."""
    for path in list(_descriptors("self")):
        port = _peer_port(int(path.name))
        if port is not None and port != store_port:
            with socket.socket(fileno=os.dup(int(path.name))) as link:
                yield link


def _peer_port(descriptor: int) -> int | None:
    """The port at the other end of a connection; none for anything else."""
    with suppress(OSError):
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            with socket.socket(fileno=os.dup(descriptor)) as sock:
                return int(sock.getpeername()[1]) if sock.family == socket.AF_INET else None
    return None


def _descriptors(process: int | str) -> Iterator[Path]:
    with suppress(OSError):  # the process has just ended, or is another user's
        folder = Path(f"/proc/{process}/fd")
        for path in [folder / name for name in os.listdir(folder)]:
            if os.path.lexists(path):  # that of the listing itself is closed again
                yield path


def _open_segments(process: int | str) -> Iterator[int]:
    for path in _descriptors(process):
        with suppress(OSError):
            if os.readlink(path).startswith(MEMORY_NAME):
                yield path.stat().st_ino


def _mapped_segments(process: int | str) -> Iterator[int]:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/maps").read_text(errors="replace").splitlines():
            columns = line.split(maxsplit=5)
            if len(columns) == 6 and columns[5].startswith(MEMORY_NAME):
                yield int(columns[MAPS_INODE])
