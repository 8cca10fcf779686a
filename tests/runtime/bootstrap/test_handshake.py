"""The handshake: members agree, everybody else is told why not, and not a byte is read beyond it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.handshake import MAX_HELLO_BYTES, Admission, HandshakeReply, admit, prove
from untrusted_peers import (
    GENEROUS_SECONDS,
    OPENING,
    Where,
    call,
    client_frame,
    join_by_hand,
    read,
    server_frame,
    serving,
    soon,
)

SECRET = b"a secret of the tests"
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both ends of a TCP connection: the client's and the server's."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname(), timeout=GENEROUS_SECONDS)
        server, _ = listening.accept()
    server.settimeout(GENEROUS_SECONDS)
    with client, server:
        yield client, server


def shake(pair: Pair, secret: bytes, hello: bytes) -> bytes | ConnectError:
    """What the server's side got while the client's side proved ``secret``."""
    got: list[bytes | ConnectError] = []

    def serve() -> None:
        try:
            got.append(admit(pair[1], SECRET, soon()))
        except ConnectError as error:
            got.append(error)
            pair[1].close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        prove(pair[0], secret, hello, soon())
    finally:
        thread.join()
    return got[0]


def prove_to(where: Where, hello: bytes) -> None:
    with call(where) as sock:
        prove(sock, SECRET, hello, soon())


@pytest.mark.parametrize("hello", [b"", b"hello", os.urandom(MAX_HELLO_BYTES)])
def test_members_agree_and_the_hello_arrives(pair: Pair, hello: bytes) -> None:
    client, server = pair
    assert shake(pair, SECRET, hello) == hello
    assert client.gettimeout() is None
    assert server.gettimeout() is None
    client.sendall(b"data")
    assert read(server, 4) == b"data"


def test_who_has_another_secret_is_told(pair: Pair) -> None:
    with pytest.raises(
        ConnectError, match="job secrets differ; start every rank with the same HEMIOLA_JOB_SECRET"
    ):
        shake(pair, b"another secret", b"hello")


def test_the_server_says_who_did_not_know_the_secret(pair: Pair) -> None:
    client, server = pair
    thread = threading.Thread(target=join_by_hand, args=(client, b"another secret", b"hello"))
    thread.start()
    with pytest.raises(ConnectError, match="did not prove that it knows the job's secret"):
        admit(server, SECRET, soon())
    thread.join()


def test_the_server_reads_no_byte_beyond_the_handshake(pair: Pair) -> None:
    client, server = pair
    thread = threading.Thread(target=join_by_hand, args=(client, SECRET, b"hello"), kwargs={"then": b"data"})
    thread.start()
    assert admit(server, SECRET, soon()) == b"hello"
    thread.join()
    assert server.recv(100) == b"data"


def test_the_client_reads_no_byte_beyond_the_handshake() -> None:
    def serve(sock: socket.socket) -> None:
        client, server = read(sock, 40), OPENING + os.urandom(32)
        sock.sendall(server)
        read(sock, 2 + len(b"hello") + 32)
        sock.sendall(server_frame(SECRET, client, server, b"hello") + b"data")

    with serving(serve) as where, socket.create_connection(where) as sock:
        prove(sock, SECRET, b"hello", soon())
        assert sock.recv(100) == b"data"


def test_an_echo_is_no_member() -> None:
    def echo(sock: socket.socket) -> None:
        while data := sock.recv(4096):
            sock.sendall(data)

    with (
        serving(echo) as where,
        pytest.raises(ConnectError, match="did not prove that it knows the job's secret"),
    ):
        prove_to(where, b"hello")


def test_the_proof_of_a_client_is_not_that_of_a_server() -> None:
    def reflect(sock: socket.socket) -> None:
        sock.sendall(read(sock, 40))
        sock.sendall(b"\x00" + read(sock, 2 + len(b"hello") + 32)[-32:])

    with (
        serving(reflect) as where,
        pytest.raises(ConnectError, match="did not prove that it knows the job's secret"),
    ):
        prove_to(where, b"hello")


@pytest.mark.parametrize("answer", [1, 2, 3, 4, 255])
def test_a_changed_answer_is_no_welcome(answer: int) -> None:
    """The answer is part of the proof: a refusal cannot be turned into a welcome, nor is an unknown one taken."""

    def serve(sock: socket.socket) -> None:
        client, server = read(sock, 40), OPENING + os.urandom(32)
        sock.sendall(server)
        read(sock, 2 + 32)
        sock.sendall(b"\x00" + server_frame(SECRET, client, server, b"", answer)[1:])

    with serving(serve) as where, pytest.raises(ConnectError, match="did not prove"):
        prove_to(where, b"")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            b"SSH-2.0-OpenSSH_9.2\r\n",
            "is not Hemiola: it answered b'SSH-2.0-'; another program holds that port",
        ),
        (b"HEMIOLA\x07" + bytes(32), "speaks version 7 of the handshake, but this process speaks 1; install"),
    ],
)
def test_a_client_says_what_it_met(said: bytes, message: str) -> None:
    def serve(sock: socket.socket) -> None:
        sock.sendall(said)
        read(sock, 40)

    with serving(serve) as where, pytest.raises(ConnectError, match=message):
        prove_to(where, b"hello")


def test_a_server_that_says_nothing_costs_no_more_than_the_deadline(pair: Pair) -> None:
    with pytest.raises(TimeoutError):
        prove(pair[0], SECRET, b"hello", time.monotonic() + 0.05)


def test_a_client_that_says_nothing_costs_no_more_than_the_deadline(pair: Pair) -> None:
    with pytest.raises(TimeoutError):
        admit(pair[1], SECRET, time.monotonic() + 0.05)


def test_the_answer_is_awaited_beyond_the_deadline() -> None:
    """The server takes a client for a member once it has seen the proof; giving up then would leave it alone."""
    deadline = time.monotonic() + 0.5

    def serve(sock: socket.socket) -> None:
        client, server = read(sock, 40), OPENING + os.urandom(32)
        sock.sendall(server)
        read(sock, 2 + 32)
        time.sleep(max(0.0, deadline + 0.1 - time.monotonic()))
        sock.sendall(server_frame(SECRET, client, server, b""))

    with serving(serve) as where, call(where) as sock:
        prove(sock, SECRET, b"", deadline)


def test_an_end_that_breaks_off_is_an_error_of_the_connection(pair: Pair) -> None:
    pair[1].close()
    with pytest.raises(ConnectionError):
        prove(pair[0], SECRET, b"hello", soon())


def fed(admission: Admission, data: bytes, *, piece: int) -> bytes:
    """All that an admission sends back when ``data`` comes in pieces, and what it did not want."""
    sent = b""
    while data and admission.missing:
        part, data = data[: min(piece, admission.missing)], data[min(piece, admission.missing) :]
        sent += admission.feed(part)
    return sent


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(1, 50))
def test_pieces_of_any_size_are_the_same_handshake(hello: bytes, piece: int) -> None:
    admission, client = Admission(SECRET), OPENING + bytes(32)
    server = fed(admission, client, piece=piece)
    assert fed(admission, client_frame(SECRET, client, server, hello), piece=piece) == b""
    assert (admission.missing, admission.fault, admission.hello) == (0, None, hello)
    assert admission.reply(HandshakeReply.WELCOME) == server_frame(SECRET, client, server, hello)


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 8 * 300))
def test_one_changed_bit_is_a_fault(hello: bytes, position: int) -> None:
    admission, client = Admission(SECRET), OPENING + bytes(32)
    server = fed(admission, client, piece=100)
    frame = bytearray(client_frame(SECRET, client, server, hello))
    position %= 8 * len(frame)
    frame[position // 8] ^= 1 << position % 8
    fed(admission, bytes(frame), piece=1000)
    assert admission.fault is not None or admission.missing
    assert admission.hello == b""


@settings(deadline=None)
@given(st.sampled_from([b"", OPENING, OPENING + bytes(32)]), st.binary(max_size=6000))
def test_any_bytes_leave_an_admission_waiting_or_at_fault(start: bytes, data: bytes) -> None:
    admission = Admission(SECRET)
    fed(admission, start + data, piece=1000)
    assert (admission.missing == 0) == (admission.fault is not None)
    assert admission.missing <= MAX_HELLO_BYTES + 32
