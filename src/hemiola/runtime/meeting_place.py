"""Where the ranks of a communicator meet: the store that is given, or the job's own on rank 0."""

from __future__ import annotations

import threading

from hemiola.runtime.environment import Environment
from hemiola.runtime.secret import store_secret
from hemiola.runtime.store import LocalStore, Store, StoreServer, TcpStore, wrap_store

_lock = threading.Lock()
_stores: dict[tuple[str, int], Store] = {}
_servers: list[StoreServer] = []
"""The job's own store lives as long as the process: later communicators of the job meet there too."""


def meeting_place(environment: Environment, store: object = None) -> Store:
    """The store through which the ranks of this environment find each other."""
    if store is not None:
        return wrap_store(store)
    if environment.world_size == 1:
        return LocalStore()
    address = environment.store_address()
    with _lock:
        if address not in _stores:
            secret = store_secret(environment)
            if environment.rank == 0:
                _servers.append(StoreServer(*address, secret=secret))
            _stores[address] = TcpStore(*address, secret)
        return _stores[address]
