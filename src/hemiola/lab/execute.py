"""``execute``: runs a command on every rank of a lab, or once on one of its hosts."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from types import FrameType

from hemiola.errors import LabError
from hemiola.lab.lab import Lab
from hemiola.lab.processes import GRACE_SECONDS, belongs_to, end_processes

POLL_SECONDS = 0.02
TIMED_OUT = 124
"""The exit code after a timeout, which is that of the command ``timeout``."""
SIGNALS = (signal.SIGTERM, signal.SIGHUP)
Process = subprocess.Popen[bytes]


def execute(lab: Lab, command: Sequence[str], *, on_host: int | None = None, timeout: float) -> int:
    """Run a command with one process per rank, or once on a host; returns the exit code of the first that failed, or 0.

    All processes and their children are ended when one of them fails, when the lab ends, at the timeout, and when this
    process is interrupted.
    """
    mark, networks = secrets.token_hex(8), lab.networks()
    before = {number: signal.signal(number, _interrupted) for number in SIGNALS}
    try:
        with lab.watch(mark) as keeper, os.fdopen(os.memfd_create("hosts"), "w") as hostfile:
            hostfile.write(lab.hostfile())
            hostfile.flush()
            where = f"/proc/{os.getpid()}/fd/{hostfile.fileno()}"
            keeper.setblocking(False)
            processes: list[Process] = []
            try:
                for host, environment in _places(lab, on_host, where):
                    processes.append(lab.start(host, command, environment, mark, stdin=subprocess.DEVNULL))
                return _wait(processes, keeper, time.monotonic() + timeout)
            finally:
                _end(processes, networks, mark)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _places(lab: Lab, on_host: int | None, hostfile: str) -> list[tuple[int, dict[str, str]]]:
    """The host and the variables of every process."""
    shared = {**lab.mpi_environment(hostfile), "HEMIOLA_JOB_SECRET": secrets.token_hex(32)}
    if on_host is None:
        return [
            (host, {**shared, **lab.environment(rank)}) for rank, host in enumerate(lab.system.host_of_rank)
        ]
    if not 0 <= on_host < lab.system.num_hosts:
        raise LabError(
            f"hosts of {lab.name} are numbered 0 to {lab.system.num_hosts - 1}, and {on_host} is none of them"
        )
    first = lab.system.host_of_rank.index(on_host)
    ranked = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"}
    own = {name: value for name, value in lab.environment(first).items() if name not in ranked}
    return [(on_host, {**shared, **own})]


def _wait(processes: Sequence[Process], keeper: socket.socket, deadline: float) -> int:
    """Wait until all processes have ended; returns the exit code of the first that failed, or 0."""
    waiting = list(processes)
    while waiting:
        for process in list(waiting):
            code = process.poll()
            if code is None:
                continue
            waiting.remove(process)
            if code < 0 and _ends_soon(keeper):
                break  # it was ended with the lab
            if code != 0:
                return 128 - code if code < 0 else code
        if not _is_open(keeper):
            raise LabError("the lab has ended while the command was running")
        if time.monotonic() > deadline:
            return TIMED_OUT
        time.sleep(POLL_SECONDS)
    return 0


def _end(processes: Sequence[Process], networks: set[int], mark: str) -> None:
    """End the processes that still run, and their children, also those that left their session."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    end_processes(networks, lambda pid: belongs_to(pid, mark, os.getpid()))


def _ends_soon(keeper: socket.socket) -> bool:
    """Whether the lab ends within the grace time."""
    until = time.monotonic() + GRACE_SECONDS
    while _is_open(keeper) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return not _is_open(keeper)


def _is_open(keeper: socket.socket) -> bool:
    try:
        return bool(keeper.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _interrupted(number: int, _: FrameType | None) -> None:
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(128 + number)
