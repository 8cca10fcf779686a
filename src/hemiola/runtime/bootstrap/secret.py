"""Secrets: the keys with which the ranks of a job authenticate each other and their store."""

from __future__ import annotations

import hashlib
import os
import secrets

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.environment import Environment
from hemiola.runtime.bootstrap.interfaces import is_loopback
from hemiola.runtime.bootstrap.store import Store

SECRET_BYTES = 32
SECRET_KEY = "hemiola/secret"


def job_secret(environment: Environment, store: Store) -> bytes:
    """The secret that the ranks of this job prove to each other, once per store.

    It is HEMIOLA_JOB_SECRET where that is set. Otherwise rank 0 draws one and hands it out through the store.
    That keeps out processes that connect by mistake and port scans. It does not keep out an attacker that can read
    the store, and the store of PyTorch answers every client that reaches its port and sends the secret unencrypted.
    On a network with untrusted peers set HEMIOLA_JOB_SECRET.
    """
    if environment.secret is not None:
        return environment.secret
    if environment.rank == 0:
        secret = secrets.token_bytes(SECRET_BYTES)
        store.set(SECRET_KEY, secret)
        return secret
    secret = store.get(SECRET_KEY)
    if len(secret) != SECRET_BYTES:
        raise ConnectError(
            f"key {SECRET_KEY!r} of the store holds {len(secret)} bytes, but rank 0 writes {SECRET_BYTES}; another "
            "program uses this store with the same keys"
        )
    return secret


def store_secret(environment: Environment) -> bytes:
    """The secret that protects the job's own store. It cannot come from that store itself.

    It is HEMIOLA_JOB_SECRET, which is required where other hosts can reach the store. On loopback a key made of the
    user and the port keeps jobs from connecting to each other by mistake, and no more: every user of this host can
    compute it, reach the store, and so join the job.
    """
    if environment.secret is not None:
        return environment.secret
    host, port = environment.store_address()
    if not is_loopback(host):
        raise ConnectError(
            f"the store at {host} can be reached by other hosts: set HEMIOLA_JOB_SECRET to the same secret for "
            "every rank (draw one with: openssl rand -hex 32), or give a store"
        )
    return hashlib.sha256(f"hemiola store of user {os.getuid()} at port {port}".encode()).digest()
