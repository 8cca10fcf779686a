"""The keyed handshake: both ends of a connection prove that they know the job's secret, without showing it.

::

    client ── magic, version, nonce ──────────────────────────► server
    client ◄─────────────────────────── magic, version, nonce ── server
    client ── length, hello, HMAC("client", transcript, hello) ─► server
    client ◄───── reply, HMAC("server", reply, transcript, hello) ── server

The transcript is both greetings. A recorded handshake is worth nothing later, because each side draws a new
nonce; a proof sent back to its sender is worth nothing, because each role proves under its own name. The
server sends nothing to a client that does not begin with the magic, and every length is known or checked before
memory is taken. Neither end reads a byte beyond its last frame: what follows belongs to whoever uses the connection.

The handshake authenticates both ends when the connection is made. What is sent afterwards is neither encrypted nor
signed: an attacker that can change packets between two members can still change their data.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from collections.abc import Callable
from enum import IntEnum

from hemiola.errors import ConnectError, RefusedError
from hemiola.runtime.bootstrap.bounded_io import name_of, receive_exactly, send_all

MAGIC = b"HEMIOLA"
VERSION = 1
NONCE_BYTES = 32
PROOF_BYTES = 32
MAX_HELLO_BYTES = 4096
REPLY_SECONDS = 2.0
"""The least time that a client waits for the reply to its proof: the server that received it may already rely on the client."""

OPENING = MAGIC + bytes([VERSION])
LENGTH = struct.Struct(">H")


class HandshakeReply(IntEnum):
    """The server's reply to a client that has sent its hello."""

    WELCOME = 0
    WRONG_SECRET = 1
    DUPLICATE = 2
    UNEXPECTED = 3


REFUSALS = {
    HandshakeReply.WRONG_SECRET: "refused this process, because their job secrets differ; start every rank with the same "
    "HEMIOLA_JOB_SECRET, or with none",
    HandshakeReply.DUPLICATE: "already has this connection; two processes claim to be the same rank, or one connects twice",
    HandshakeReply.UNEXPECTED: "does not serve connections of this kind; check the address and the port",
}
"""What the client's error says for every reply but a welcome."""


def prove(sock: socket.socket, secret: bytes, hello: bytes, deadline: float) -> None:
    """The client's side: prove membership, deliver ``hello``, and have the server prove its own membership.

    ConnectError says why the two do not belong together; another attempt would end the same way. OSError says that
    the connection broke or that the deadline passed; the wait for the reply may last ``REPLY_SECONDS`` in any case.
    The socket is blocking afterwards.
    """
    assert secret, "an empty secret proves nothing"
    assert len(hello) <= MAX_HELLO_BYTES, f"a hello of {len(hello)} bytes is too long"
    where = name_of(*sock.getpeername()[:2])
    client = OPENING + secrets.token_bytes(NONCE_BYTES)
    send_all(sock, client, deadline)
    opening = receive_exactly(sock, len(OPENING), deadline)
    _check_opening(opening, where)
    transcript = client + opening + receive_exactly(sock, NONCE_BYTES, deadline)
    framed = LENGTH.pack(len(hello)) + hello
    send_all(sock, framed + _client_proof(secret, transcript, framed), deadline)
    last = receive_exactly(sock, 1 + PROOF_BYTES, max(deadline, time.monotonic() + REPLY_SECONDS))
    if last[0] in REFUSALS:
        raise RefusedError(f"the process at {where} {REFUSALS[HandshakeReply(last[0])]}")
    if not hmac.compare_digest(last[1:], _server_proof(secret, HandshakeReply.WELCOME, transcript, framed)):
        raise RefusedError(
            f"the process at {where} did not prove that it knows the job's secret; it is no rank of this job, "
            "so check the address and the port"
        )
    sock.settimeout(None)


def admit(sock: socket.socket, secret: bytes, deadline: float) -> bytes:
    """The server's side over one blocking socket: returns the client's hello after its proof was right.

    Errors are those of ``prove``. A server with many clients in one thread feeds an ``Admission`` each instead.
    """
    admission = Admission(secret)
    while admission.missing:
        reply = admission.feed(receive_exactly(sock, admission.missing, deadline))
        send_all(sock, reply, deadline)
    if admission.fault:
        raise ConnectError(f"{name_of(*sock.getpeername()[:2])} {admission.fault}")
    send_all(sock, admission.reply(HandshakeReply.WELCOME), deadline)
    sock.settimeout(None)
    return admission.hello


class Admission:
    """The server's side of one handshake as a state machine: bytes in, bytes out, and no waiting.

    Feed it at most ``missing`` bytes at a time and send what it returns. When ``missing`` is 0 it has ended:
    with a ``fault``, or with a ``hello`` whose proof was right and which waits for a ``reply``.
    """

    def __init__(self, secret: bytes) -> None:
        assert secret, "an empty secret proves nothing"
        self.missing = len(OPENING)
        self.fault: str | None = None
        self.hello = b""
        self._secret = secret
        self._taken = bytearray()
        self._transcript = b""
        self._framed = b""
        self._stage: Callable[[bytes], bytes] = self._take_opening

    def feed(self, data: bytes) -> bytes:
        """Take bytes that the client sent; returns the bytes to send back, often none."""
        assert len(data) <= self.missing, "bytes beyond the handshake belong to others"
        self._taken += data
        self.missing -= len(data)
        if self.missing:
            return b""
        frame = bytes(self._taken)
        self._taken.clear()
        return self._stage(frame)

    def reply(self, reply: HandshakeReply) -> bytes:
        """The last frame, for a client whose proof was right."""
        return bytes([reply]) + _server_proof(self._secret, reply, self._transcript, self._framed)

    def _take_opening(self, frame: bytes) -> bytes:
        if not frame.startswith(MAGIC):
            self.fault = "is no rank of a job: it does not begin as Hemiola does"
            return b""
        if frame != OPENING:
            self.fault = f"speaks version {frame[-1]} of the handshake, but this process speaks {VERSION}"
            return OPENING + secrets.token_bytes(NONCE_BYTES)
        return self._expect(NONCE_BYTES, self._take_nonce)

    def _take_nonce(self, frame: bytes) -> bytes:
        greeting = OPENING + secrets.token_bytes(NONCE_BYTES)
        self._transcript = OPENING + frame + greeting
        self._expect(LENGTH.size, self._take_length)
        return greeting

    def _take_length(self, frame: bytes) -> bytes:
        (length,) = LENGTH.unpack(frame)
        if length > MAX_HELLO_BYTES:
            self.fault = f"announces a hello of {length} bytes, but {MAX_HELLO_BYTES} is the most"
            return b""
        self._framed = frame
        return self._expect(length + PROOF_BYTES, self._take_hello)

    def _take_hello(self, frame: bytes) -> bytes:
        hello, proof = frame[:-PROOF_BYTES], frame[-PROOF_BYTES:]
        self._framed += hello
        if not hmac.compare_digest(proof, _client_proof(self._secret, self._transcript, self._framed)):
            self.fault = "did not prove that it knows the job's secret"
            return self.reply(HandshakeReply.WRONG_SECRET)
        self.hello = hello
        return b""

    def _expect(self, num_bytes: int, stage: Callable[[bytes], bytes]) -> bytes:
        self.missing, self._stage = num_bytes, stage
        return b""


def _check_opening(opening: bytes, where: str) -> None:
    if not opening.startswith(MAGIC):
        raise RefusedError(
            f"what listens at {where} is not Hemiola: it answered {opening!r}; another program holds that port"
        )
    if opening != OPENING:
        raise RefusedError(
            f"the process at {where} speaks version {opening[-1]} of the handshake, but this process speaks "
            f"{VERSION}; install the same Hemiola for every rank"
        )


def _client_proof(secret: bytes, transcript: bytes, framed: bytes) -> bytes:
    return hmac.digest(secret, b"client" + transcript + framed, "sha256")


def _server_proof(secret: bytes, reply: int, transcript: bytes, framed: bytes) -> bytes:
    return hmac.digest(secret, b"server" + bytes([reply]) + transcript + framed, "sha256")
