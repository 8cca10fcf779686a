"""Interfaces: the local address that a rank binds, from the interface named by the user or from the route to the master."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from hemiola.errors import ConnectError

SIOCGIFADDR = 0x8915
IFREQ = struct.Struct("16s24s")
ADDRESS_AT = 20
"""The offset of the IPv4 address in an ifreq: after the name, the family and the port."""
MAX_NAME_BYTES = 15
IPV6_TABLE = Path("/proc/net/if_inet6")
DISCARD_PORT = 9
"""The port of a UDP socket that only looks up a route; nothing is sent."""


def choose_address(names: Sequence[str], local_rank: int, master: str | None) -> str:
    """The address of this host that the rank binds and tells the others; never the wildcard address.

    With names, local rank ``r`` takes interface ``names[r % len(names)]``. Without, it is the address from
    which packets to the master leave; 127.0.0.1 (or ::1) where the master is this host's loopback, which no
    other host can reach.
    """
    if names:
        return address_of(names[local_rank % len(names)], prefer_ipv6=_is_ipv6(master))
    if master is None:
        raise ConnectError(
            "no interface to listen at is known: set HEMIOLA_IFNAME to one of "
            f"{_existing()}, or MASTER_ADDR to the address of rank 0"
        )
    return _towards(master)


def address_of(name: str, *, prefer_ipv6: bool = False) -> str:
    """The address of an interface: IPv4 where it has one, unless IPv6 is preferred."""
    found = [address for address in (_ipv4_of(name), _ipv6_of(name)) if address is not None]
    if not found:
        raise ConnectError(
            f"interface {name!r} does not exist or has no address that other hosts can reach; this host has "
            f"{_existing()}"
        )
    return found[-1 if prefer_ipv6 else 0]


def is_loopback(host: str) -> bool:
    """Whether a name or an address is one of this host's loopback; a name that cannot be resolved is not."""
    try:
        return all(_parse(where).is_loopback for where in _resolve(host))
    except OSError:
        return False


def _towards(master: str) -> str:
    try:
        where = _resolve(master)[0]
        if _parse(where).is_loopback:
            return "::1" if ":" in where else "127.0.0.1"
        family = socket.AF_INET6 if ":" in where else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((where, DISCARD_PORT))
            address = str(probe.getsockname()[0])
    except OSError as error:
        raise ConnectError(
            f"no way to the master {master!r}: {error.strerror or error}; check MASTER_ADDR, or choose one of "
            f"the interfaces {_existing()} with HEMIOLA_IFNAME"
        ) from error
    if _parse(address).is_unspecified or (_is_ipv6(address) and _parse(address).is_link_local):
        raise ConnectError(
            f"packets to the master {master!r} leave from {address}, which other hosts cannot use; choose one of "
            f"the interfaces {_existing()} with HEMIOLA_IFNAME"
        )
    return address


def _resolve(host: str) -> list[str]:
    found = socket.getaddrinfo(host, DISCARD_PORT, type=socket.SOCK_DGRAM)
    return [str(where[0]) for _, _, _, _, where in found]


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address.partition("%")[0])


def _is_ipv6(host: str | None) -> bool:
    try:
        return host is not None and _parse(host).version == 6
    except ValueError:
        return False


def _ipv4_of(name: str) -> str | None:
    encoded = os.fsencode(name)
    if not 0 < len(encoded) <= MAX_NAME_BYTES or b"\0" in encoded:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, SIOCGIFADDR, IFREQ.pack(encoded, b""))
        except OSError:
            return None
    return socket.inet_ntoa(answer[ADDRESS_AT : ADDRESS_AT + 4])


def _ipv6_of(name: str) -> str | None:
    """The first address of the interface that is not link-local, because a link-local one means nothing on other hosts."""
    try:
        rows = [line.split() for line in IPV6_TABLE.read_text("ascii").splitlines()]
    except OSError:
        return None
    parsed = [ipaddress.IPv6Address(bytes.fromhex(row[0])) for row in rows if row[5] == name]
    return next((str(address) for address in parsed if not address.is_link_local), None)


def _existing() -> str:
    return ", ".join(name for _, name in socket.if_nameindex())
