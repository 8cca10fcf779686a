"""Hosts made of network namespaces: each has interfaces and addresses of its own, and nothing leaves them.

Interface ``eth<k>`` of every host is plugged into a switch of its own, network 10.77.<k>.0/24, in one more
namespace. The machine's own network is not touched; names are unique, and all is gone at the end.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

SECONDS = 20.0
"""For one command of ``ip``."""


@dataclass(frozen=True, slots=True)
class Host:
    """A namespace and its place in the networks."""

    namespace: str
    number: int
    interfaces: tuple[str, ...]

    @property
    def inside(self) -> list[str]:
        """The command that runs the command after it here."""
        return ["ip", "netns", "exec", self.namespace]

    def address(self, interface: int = 0) -> str:
        """The address of the k-th interface."""
        return f"10.77.{interface}.{self.number + 1}"

    def set_option(self, name: str, value: str) -> None:
        """Change an option of the kernel's network, here alone."""
        path = f"/proc/sys/{name.replace('.', '/')}"
        _run(*self.inside, "sh", "-c", 'echo "$1" > "$2"', "sh", value, path)

    def unplug(self, interface: int = 0) -> None:
        """Take an interface down: packets are lost, and nobody is told."""
        _run("ip", "-n", self.namespace, "link", "set", self.interfaces[interface], "down")

    def slow_down(self, rate: str, interface: int = 0) -> None:
        """Let no more leave through an interface than, say, ``50mbit`` a second."""
        shape = ("tbf", "rate", rate, "burst", "64kb", "latency", "200ms")
        _run(*self.inside, "tc", "qdisc", "add", "dev", self.interfaces[interface], "root", *shape)


def obstacle() -> str | None:
    """Why hosts cannot be made on this machine; None where they can."""
    if shutil.which("ip") is None:
        return "the command ip (iproute2) is not installed"
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    try:
        with hosts(1):
            return None
    except NamespaceError as error:
        return str(error)


class NamespaceError(Exception):
    """A network that could not be made."""


@contextmanager
def hosts(num_hosts: int, *, num_interfaces: int = 1) -> Iterator[list[Host]]:
    """Hosts that reach each other through every interface."""
    name = f"hemiola-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        switch = _add_namespace(stack, f"{name}-switch")
        interfaces = tuple(f"eth{k}" for k in range(num_interfaces))
        for interface in interfaces:
            _run("ip", "-n", switch, "link", "add", f"to-{interface}", "type", "bridge")
            _run("ip", "-n", switch, "link", "set", f"to-{interface}", "up")
        made = [
            Host(_add_namespace(stack, f"{name}-{k}"), number=k, interfaces=interfaces)
            for k in range(num_hosts)
        ]
        for host in made:
            _plug_in(host, switch)
        yield made


def _plug_in(host: Host, switch: str) -> None:
    for k, interface in enumerate(host.interfaces):
        here, there = ("ip", "-n", host.namespace), ("ip", "-n", switch)
        port = f"{interface}-{host.number}"
        _run(*here, "link", "add", interface, "type", "veth", "peer", "name", port, "netns", switch)
        _run(*there, "link", "set", port, "master", f"to-{interface}", "up")
        _run(*here, "address", "add", f"{host.address(k)}/24", "dev", interface)
        _run(*here, "link", "set", interface, "up")


def _add_namespace(stack: ExitStack, name: str) -> str:
    _run("ip", "netns", "add", name)
    stack.callback(_run, "ip", "netns", "delete", name)
    _run("ip", "-n", name, "link", "set", "lo", "up")
    return name


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.CalledProcessError as error:
        raise NamespaceError(f"{' '.join(command)}: {error.stderr.strip()}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NamespaceError(str(error)) from error
