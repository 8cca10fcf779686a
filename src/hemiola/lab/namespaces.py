"""Namespaces: network and UTS namespaces without names, which the kernel removes when no process holds them."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hemiola.errors import LabError

CLONE_NEWUTS, CLONE_NEWNET = 0x04000000, 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
IFREQ = struct.Struct("16sH22x")
COMMAND_SECONDS = 60.0
SBIN = "/usr/sbin:/sbin"
"""Folders in which ``ip`` and ``tc`` may be although they are not in the caller's PATH."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Namespace:
    """File descriptors that hold a network namespace and a UTS namespace, which has the host name."""

    net: int
    uts: int

    def path(self, pid: int | str = "self") -> str:
        """The path of the network namespace for other processes, if process ``pid`` holds it."""
        return f"/proc/{pid}/fd/{self.net}"


def obstacle() -> str | None:
    """Why no lab can be built on this machine, in one sentence that says what to do; None where it can."""
    for tool in ("ip", "tc", "nsenter"):
        if find_tool(tool) is None:
            package = "util-linux" if tool == "nsenter" else "iproute2"
            return f"the lab needs the command {tool}; install Debian's package {package}"
    if os.geteuid() != 0:
        return "the lab makes network namespaces, which takes root: run it with sudo, or in a container started with --privileged"
    try:
        with kept_apart():
            os.close(make_namespace("probe").net)
    except LabError as error:
        return str(error)
    return None


def find_tool(name: str) -> str | None:
    """The path of a command; None where it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}")


@contextmanager
def kept_apart() -> Iterator[None]:
    """A block in which this thread makes or enters namespaces; afterwards it is in its former ones again."""
    net, uts = _open_own("net"), _open_own("uts")
    try:
        yield
    finally:
        _set(net, CLONE_NEWNET)
        _set(uts, CLONE_NEWUTS)
        os.close(net)
        os.close(uts)


def make_namespace(host_name: str) -> Namespace:
    """Make a network namespace and a UTS namespace with a host name; this thread is in them afterwards."""
    if _libc.unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0:
        raise _refused("make")
    socket.sethostname(host_name)
    return Namespace(_open_own("net"), _open_own("uts"))


def enter(namespace: Namespace) -> None:
    """Move this thread into a namespace."""
    _set(namespace.net, CLONE_NEWNET)
    _set(namespace.uts, CLONE_NEWUTS)


def make_tap(name: str) -> int:
    """Make a TAP device, whose frames this process reads and writes; it exists until the descriptor is closed."""
    try:
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.ioctl(descriptor, TUNSETIFF, IFREQ.pack(name.encode(), IFF_TAP | IFF_NO_PI))
    except OSError as error:
        raise LabError(
            f"links with a delay need /dev/net/tun, which cannot be used here: {error.strerror}"
        ) from error
    return descriptor


def run_batch(tool: str, lines: Iterable[str], namespace: Namespace) -> None:
    """Run ``ip -batch`` or ``tc -batch`` in a namespace of this process."""
    text = "".join(f"{line}\n" for line in lines)
    command = [
        find_tool("nsenter") or "nsenter",
        f"--net={namespace.path(os.getpid())}",
        find_tool(tool) or tool,
        "-batch",
        "-",
    ]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=COMMAND_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{tool} could not be run: {error}") from error
    if done.returncode != 0:
        raise LabError(f"{tool} refused to build the lab: {' '.join(done.stderr.split())[:300]}")


def inode(descriptor: int) -> int:
    """The inode of a namespace, which identifies it."""
    return os.fstat(descriptor).st_ino


def _open_own(kind: str) -> int:
    return os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def _set(descriptor: int, kind: int) -> None:
    if _libc.setns(descriptor, kind) != 0:
        raise _refused("enter")


def _refused(what: str) -> LabError:
    number = ctypes.get_errno()
    if number == errno.EPERM:
        return LabError(
            f"this machine does not let us {what} network namespaces; it takes root with CAP_SYS_ADMIN"
        )
    return LabError(f"this machine cannot {what} network namespaces: {os.strerror(number)}")
