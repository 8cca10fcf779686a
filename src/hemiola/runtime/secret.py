"""Where the job's secret comes from."""

from __future__ import annotations

import hashlib
import os
import secrets

from hemiola.errors import ConnectError
from hemiola.runtime.environment import Environment
from hemiola.runtime.interfaces import is_loopback
from hemiola.runtime.store import Store

SECRET_BYTES = 32
SECRET_KEY = "hemiola/secret"


def job_secret(environment: Environment, store: Store) -> bytes:
    """The secret that the ranks of this job prove to each other, once per store.

    It is HEMIOLA_JOB_SECRET where that is set. Otherwise rank 0 draws one and hands it out through the store.
    That keeps out who stumbles on a port or scans for one; it does not keep out who can read the store, and the
    store of PyTorch answers anybody who reaches its port and sends the secret unencrypted. On a network with
    strangers set HEMIOLA_JOB_SECRET.
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
    """The secret that guards the job's own store, which cannot come out of that store itself.

    It is HEMIOLA_JOB_SECRET, which is needed where the store can be reached from other hosts. On loopback a key
    made of the user and the port is enough to keep jobs apart by accident, and no more: every user of this
    host can compute it, reach the store, and so join the job.
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
