"""Stores: what is set is got, waiting ends, strangers get nowhere, and nothing stays behind."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.listener import MAX_PENDING
from hemiola.runtime.bootstrap.store import LocalStore, Store, StoreLimits, StoreServer, TcpStore, wrap_store
from untrusted_peers import (
    ATTACKS,
    GENEROUS_SECONDS,
    OPENING,
    Where,
    call,
    held_by_process,
    is_dropped,
    join_by_hand,
    read,
)

SECRET = b"a secret of the tests"
MAX_VALUE = 16 << 20
pytestmark = [
    pytest.mark.filterwarnings("error::ResourceWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]
"""A socket that is left to the garbage collector fails its test."""


@pytest.fixture
def server() -> Iterator[StoreServer]:
    with StoreServer(secret=SECRET) as server:
        yield server


def client_of(server: StoreServer, timeout: float = GENEROUS_SECONDS) -> TcpStore:
    return TcpStore(server.address, server.port, SECRET, timeout)


def where_is(server: StoreServer) -> Where:
    return server.address, server.port


@pytest.fixture(params=["local", "tcp", "wrapped"])
def store(request: pytest.FixtureRequest, server: StoreServer) -> Iterator[Store]:
    if request.param == "local":
        yield LocalStore(GENEROUS_SECONDS)
    elif request.param == "wrapped":
        yield wrap_store(LocalStore(GENEROUS_SECONDS))
    else:
        with client_of(server) as client:
            yield client


def test_what_is_set_is_got(store: Store) -> None:
    for value in (b"", b"value", bytes(range(256)), b"again"):
        store.set("key", value)
        assert store.get("key") == value


def test_get_waits_for_another_thread(store: Store) -> None:
    """More threads than a pool would have, each waiting for the key of the one before it."""
    threads = [
        threading.Thread(target=lambda k=k: store.set(f"{k + 1}", store.get(f"{k}") + bytes([k])))
        for k in range(20)
    ]
    for thread in threads:
        thread.start()
    store.set("0", b"")
    assert store.get("20") == bytes(range(20))
    for thread in threads:
        thread.join()


def test_a_counter(store: Store) -> None:
    assert [store.add("count", amount) for amount in (1, 1, 5, -3)] == [1, 2, 7, 4]
    assert store.get("count") == b"4"
    store.set("text", b"four")
    with pytest.raises(ConnectError, match="key 'text' of the store is no counter"):
        store.add("text", 1)
    assert store.add("count", 0) == 4


def test_threads_count_together(store: Store) -> None:
    def count() -> None:
        for _ in range(50):
            store.add("count", 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get("count") == b"200"


def test_a_key_that_nobody_writes_is_named(server: StoreServer) -> None:
    with pytest.raises(ConnectError, match=r"nobody wrote key 'rank 3' to the store within 0\.05 s"):
        LocalStore(0.05).get("rank 3")
    with client_of(server) as patient, client_of(server, timeout=0.5) as impatient:
        with pytest.raises(ConnectError, match=r"nobody wrote key 'rank 3' to the store within 0\.5 s"):
            impatient.get("rank 3")
        patient.set("rank 3", b"late")
        patient.set("other", b"not that which came late")
        assert impatient.get("other") == b"not that which came late"
        assert impatient.get("rank 3") == b"late"


def test_values_of_many_sizes_pass_between_clients(server: StoreServer) -> None:
    with client_of(server) as writer, client_of(server) as reader:
        for size in (1, 1 << 16, (1 << 20) + 3, MAX_VALUE):
            value = os.urandom(1 << 10) * (size >> 10) + os.urandom(size & 1023)
            writer.set("value", value)
            assert reader.get("value") == value


def test_one_write_answers_all_who_wait(server: StoreServer) -> None:
    got: list[bytes] = []
    clients = [client_of(server) for _ in range(8)]
    threads = [threading.Thread(target=lambda c=c: got.append(c.get("go"))) for c in clients]
    for thread in threads:
        thread.start()
    clients[0].set("go", b"!")
    for thread in threads:
        thread.join()
    assert got == [b"!"] * 8
    for client in clients:
        client.close()


def test_a_client_may_come_before_its_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    got: list[bytes] = []

    def ask() -> None:
        with TcpStore("127.0.0.1", port, SECRET, GENEROUS_SECONDS) as early:
            got.append(early.get("key"))

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.05)
    with StoreServer("127.0.0.1", port, secret=SECRET) as server, client_of(server) as client:
        client.set("key", b"value")
        thread.join()
    assert got == [b"value"]


def test_a_server_that_never_comes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(
        ConnectError, match=rf"no connection to 127\.0\.0\.1:{port} within the time: .*refused"
    ):
        TcpStore("127.0.0.1", port, SECRET, 0.1)


def test_a_client_with_another_secret_is_told_at_once(server: StoreServer) -> None:
    with pytest.raises(ConnectError, match=r"which rank 0 holds: .* job secrets differ"):
        TcpStore(server.address, server.port, b"another secret", GENEROUS_SECONDS)


def test_a_server_that_ends_is_told_to_who_waits(server: StoreServer) -> None:
    with client_of(server) as client:
        ending = threading.Timer(0.05, server.close)
        ending.start()
        with pytest.raises(ConnectError, match="was lost while key 'key' was asked for"):
            client.get("key")
        ending.join()


def test_closing_ends_calls_of_other_threads(server: StoreServer) -> None:
    client = client_of(server)
    ending = threading.Timer(0.05, client.close)
    ending.start()
    with pytest.raises(ConnectError, match="was lost while key 'key' was asked for"):
        client.get("key")
    ending.join()
    with pytest.raises(ConnectError, match="is used after it was closed"):
        client.set("key", b"")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("", b"", "a key of the store has 1 to 1024 bytes, but this one has 0"),
        ("k" * 1025, b"", "a key of the store has 1 to 1024 bytes, but this one has 1025"),
        ("key", bytes(MAX_VALUE + 1), "a value here has 0 to 16777216 bytes, but this one has 16777217"),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_sent(
    key: str, value: bytes, message: str, server: StoreServer
) -> None:
    with client_of(server) as client, pytest.raises(ConnectError, match=message):
        client.set(key, value)


def test_a_counter_has_64_bits(server: StoreServer) -> None:
    with client_of(server) as client, pytest.raises(ConnectError, match="has 64 bits"):
        client.add("count", 1 << 63)


def test_a_full_store_refuses_and_goes_on() -> None:
    limits = StoreLimits(num_keys=3, num_bytes=100)
    with StoreServer(secret=SECRET, limits=limits) as server, client_of(server) as client:
        client.set("a", bytes(60))
        with pytest.raises(ConnectError, match="refused key 'b': it holds 61 bytes, and 61 more do not fit"):
            client.set("b", bytes(60))
        client.set("a", bytes(10))
        client.set("b", bytes(60))
        client.add("c", 1)
        with pytest.raises(ConnectError, match="refused key 'd': it holds 3 keys, and no more fit"):
            client.set("d", b"")
        assert client.get("a") == bytes(10)


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">BHI", 1, 1025, 0),
        struct.pack(">BHI", 1, 0, 0),
        struct.pack(">BHI", 1, 1, MAX_VALUE + 1),
        struct.pack(">BHI", 2, 1, 1),
        struct.pack(">BHI", 3, 1, 9),
        struct.pack(">BHI", 9, 1, 0),
    ],
)
def test_a_member_that_breaks_the_limits_is_dropped_at_the_head_of_its_request(
    head: bytes, server: StoreServer
) -> None:
    with call(where_is(server)) as sock, client_of(server) as client:
        join_by_hand(sock, SECRET, b"store")
        sock.sendall(head)
        assert is_dropped(sock)
        client.set("key", b"value")
        assert client.get("key") == b"value"


def test_a_member_that_speaks_before_it_is_answered_is_dropped(server: StoreServer) -> None:
    with call(where_is(server)) as sock, client_of(server) as client:
        join_by_hand(sock, SECRET, b"store")
        sock.sendall(2 * (struct.pack(">BHI", 2, 3, 0) + b"key"))
        assert is_dropped(sock)
        client.set("key", b"value")


def test_a_member_that_does_not_read_holds_up_nobody(server: StoreServer) -> None:
    with call(where_is(server)) as sock, client_of(server) as client:
        client.set("large", bytes(MAX_VALUE))
        join_by_hand(sock, SECRET, b"store")
        sock.sendall(50 * (struct.pack(">BHI", 2, 5, 0) + b"large"))
        assert read(sock, 5) == struct.pack(">BI", 0, MAX_VALUE)
        client.set("key", b"value")
        assert client.get("key") == b"value"


def test_a_member_of_another_kind_is_told(server: StoreServer) -> None:
    with call(where_is(server)) as sock:
        _, answer = join_by_hand(sock, SECRET, b"link" + bytes(12))
        assert answer[:1] == b"\x03"
        assert is_dropped(sock)


@pytest.mark.parametrize("attack", ATTACKS)
def test_strangers_get_nowhere(attack: Callable[[Where], None], server: StoreServer) -> None:
    with client_of(server) as before:
        for _ in range(5):
            attack(where_is(server))
        with client_of(server) as after:
            after.set("key", b"value")
            assert before.get("key") == b"value"


def test_a_crowd_of_idle_strangers_holds_up_nobody() -> None:
    with StoreServer(secret=SECRET, patience=10_000.0) as server:
        crowd = [call(where_is(server)) for _ in range(MAX_PENDING + 20)]
        assert all(is_dropped(sock) for sock in crowd[:20])
        with client_of(server) as client:
            client.set("key", b"value")
            assert client.get("key") == b"value"
        for sock in crowd:
            sock.close()


def test_who_never_ends_its_handshake_is_dropped() -> None:
    with StoreServer(secret=SECRET, patience=0.2) as server:
        with call(where_is(server)) as idle, call(where_is(server)) as slow:
            for byte in OPENING:
                slow.sendall(bytes([byte]))
            assert is_dropped(idle)
            assert is_dropped(slow)
        client_of(server).close()


REQUESTS = st.tuples(
    st.integers(0, 4),
    st.sampled_from([0, 1, 5, 1024, 1025]),
    st.sampled_from([0, 1, 8, 9, MAX_VALUE, MAX_VALUE + 1, (1 << 32) - 1]),
    st.binary(max_size=30),
)


@settings(max_examples=40, deadline=None)
@given(data=st.lists(REQUESTS, max_size=5), junk=st.binary(max_size=200))
def test_no_request_of_a_member_harms_the_server(
    data: list[tuple[int, int, int, bytes]], junk: bytes
) -> None:
    with StoreServer(secret=SECRET) as server, client_of(server) as client:
        with call(where_is(server)) as sock, suppress(ConnectionError):
            join_by_hand(sock, SECRET, b"store")
            sock.sendall(b"".join(struct.pack(">BHI", *head) + body for *head, body in data) + junk)
        client.set("key of another", junk)
        assert client.get("key of another") == junk


@settings(max_examples=40, deadline=None)
@given(start=st.sampled_from([b"", OPENING, OPENING + bytes(32)]), junk=st.binary(max_size=500))
def test_no_bytes_of_a_stranger_harm_the_server(start: bytes, junk: bytes) -> None:
    with StoreServer(secret=SECRET) as server:
        with call(where_is(server)) as sock, suppress(ConnectionError):
            sock.sendall(start + junk)
        with client_of(server) as client:
            client.set("key", junk)
            assert client.get("key") == junk


def test_closing_leaves_no_thread_and_no_file_descriptor() -> None:
    before = held_by_process()
    server = StoreServer(secret=SECRET)
    client, idle = client_of(server), call(where_is(server))
    client.set("key", b"value")
    server.close()
    server.close()
    client.close()
    client.close()
    idle.close()
    assert not held_by_process() - before


def test_a_port_that_is_taken(server: StoreServer) -> None:
    with pytest.raises(
        ConnectError, match=rf"cannot listen at 127\.0\.0\.1:{server.port}: Address already in use"
    ):
        StoreServer("127.0.0.1", server.port, secret=SECRET)


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_all_interfaces_at_once_are_refused(address: str) -> None:
    with pytest.raises(
        ConnectError, match="would open every interface of this host; give the address of one"
    ):
        StoreServer(address, secret=SECRET)


def test_an_address_of_another_host() -> None:
    with pytest.raises(
        ConnectError, match=r"cannot listen at 192\.0\.2\.1:0: .*give an address of this host"
    ):
        StoreServer("192.0.2.1", secret=SECRET)


class BrokenStore:
    """What somebody else's store does wrong."""

    def __init__(self, failing: Exception | None = None, value: object = b"") -> None:
        self.failing, self.value = failing, value

    def get(self, key: str) -> object:
        if self.failing is not None:
            raise self.failing
        return self.value

    set = add = lambda self, key, value: self.get(key)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("wait timeout after 10ms\nstack"), TimeoutError("late"), KeyError("key"), EOFError()],
)
def test_faults_of_a_foreign_store_become_connect_errors(error: Exception) -> None:
    store = wrap_store(BrokenStore(error))
    for call_it in (lambda: store.get("k"), lambda: store.set("k", b""), lambda: store.add("k", 1)):
        with pytest.raises(
            ConnectError, match=r"(get|set|add) of key 'k' failed in BrokenStore: [^\n]+$"
        ) as caught:
            call_it()
        assert caught.value.__cause__ is error


def test_a_foreign_store_that_gives_something_else() -> None:
    store = wrap_store(BrokenStore(value="text"))
    with pytest.raises(ConnectError, match=r"BrokenStore\.get gives bytes, but gave str for key 'k'"):
        store.get("k")
    with pytest.raises(ConnectError, match=r"BrokenStore\.add gives an int, but gave str for key 'k'"):
        store.add("k", 1)


def test_what_is_no_store() -> None:
    with pytest.raises(ConnectError, match="a store has set, get and add, but dict has no set"):
        wrap_store({})


def test_the_stores_of_torch() -> None:
    """A real one keeps the promises, and its own timeout becomes ours."""
    distributed = pytest.importorskip("torch.distributed")
    foreign = distributed.HashStore()
    store = wrap_store(foreign)
    store.set("key", b"\x00\xff")
    assert store.get("key") == b"\x00\xff"
    assert [store.add("count", 2), store.add("count", 3)] == [2, 5]
    assert store.get("count") == b"5"
    foreign.set_timeout(timedelta(milliseconds=50))
    with pytest.raises(ConnectError, match="get of key 'missing' failed in HashStore"):
        store.get("missing")
