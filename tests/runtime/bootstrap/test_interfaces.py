"""The address that a rank binds: of the interface it was told, or of the way to the master; never all of them."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

import pytest

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap import interfaces
from hemiola.runtime.bootstrap.interfaces import address_of, choose_address, is_loopback

EXISTING = ", ".join(name for _, name in socket.if_nameindex())


def test_an_interface_by_name() -> None:
    assert choose_address(["lo"], 0, "192.0.2.1") == "127.0.0.1"


@pytest.mark.parametrize("local_rank", range(5))
def test_local_ranks_go_around_the_interfaces(local_rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "_ipv4_of", {"eth0": "10.0.0.1", "eth1": "10.0.1.1"}.get)
    expected = ["10.0.0.1", "10.0.1.1"][local_rank % 2]
    assert choose_address(["eth0", "eth1"], local_rank, None) == expected


@pytest.mark.parametrize("name", ["missing0", "", "a-name-of-more-than-15", "a\0b"])
def test_an_interface_that_is_not_there_is_told_with_those_that_are(name: str) -> None:
    with pytest.raises(ConnectError) as caught:
        choose_address([name], 0, "127.0.0.1")
    assert str(caught.value).startswith(f"interface {name!r} does not exist or has no address")
    assert str(caught.value).endswith(f"this host has {EXISTING}")


IPV6_TABLE = """\
fe800000000000000000000000000001 02 40 20 80 eth7
20010db8000000000000000000000007 02 40 00 80 eth7
fe800000000000000000000000000002 03 40 20 80 eth8
"""


@pytest.fixture
def ipv6_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "if_inet6").write_text(IPV6_TABLE)
    monkeypatch.setattr(interfaces, "IPV6_TABLE", tmp_path / "if_inet6")


@pytest.mark.usefixtures("ipv6_table")
def test_an_interface_with_ipv6_alone() -> None:
    assert address_of("eth7") == "2001:db8::7"


@pytest.mark.usefixtures("ipv6_table")
def test_an_address_that_only_its_link_knows_is_none() -> None:
    with pytest.raises(ConnectError, match="has no address that other hosts can reach"):
        address_of("eth8")


@pytest.mark.usefixtures("ipv6_table")
def test_the_master_decides_between_two_kinds_of_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "_ipv4_of", lambda name: "10.0.0.7")
    assert choose_address(["eth7"], 0, "2001:db8::1") == "2001:db8::7"
    assert choose_address(["eth7"], 0, "10.0.0.1") == "10.0.0.7"
    assert choose_address(["eth7"], 0, "node1") == "10.0.0.7"


@pytest.mark.parametrize(
    ("master", "address"),
    [("127.0.0.1", "127.0.0.1"), ("127.0.1.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "::1")],
)
def test_a_master_on_loopback(master: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = interfaces._resolve
    monkeypatch.setattr(
        interfaces, "_resolve", lambda host: ["127.0.0.1"] if host == "localhost" else resolve(host)
    )
    assert choose_address([], 3, master) == address


def test_the_way_to_the_master_has_an_address_of_this_host() -> None:
    """192.0.2.1 is nobody's; where the host has a route to it, it names the address that it would use."""
    try:
        address = choose_address([], 0, "192.0.2.1")
    except ConnectError as error:
        assert "no way to the master '192.0.2.1'" in str(error)  # noqa: PT017 (a host without a network)
        return
    assert not ipaddress.ip_address(address).is_unspecified
    socket.create_server((address, 0)).close()


def test_a_master_that_nobody_knows() -> None:
    with pytest.raises(ConnectError, match=r"no way to the master 'nobody.invalid': .*HEMIOLA_IFNAME"):
        choose_address([], 0, "nobody.invalid")


@pytest.mark.parametrize("found", ["0.0.0.0", "::", "fe80::1"])
def test_an_address_that_others_cannot_use_is_refused(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Probe:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Probe:
            return self

        def __exit__(self, *_: object) -> None: ...
        def connect(self, where: object) -> None: ...
        def getsockname(self) -> tuple[str, int]:
            return found, 1

    monkeypatch.setattr(socket, "socket", Probe)
    with pytest.raises(ConnectError, match=f"leave from {found}, which other hosts cannot use"):
        choose_address([], 0, "192.0.2.1")


def test_without_a_name_and_without_a_master_there_is_no_choice() -> None:
    with pytest.raises(ConnectError, match=r"set HEMIOLA_IFNAME to one of .*lo.* or MASTER_ADDR"):
        choose_address([], 0, None)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("192.0.2.1", False), ("nobody.invalid", False)],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected
