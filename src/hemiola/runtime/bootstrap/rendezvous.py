"""Rendezvous: the store in which the ranks of a job find each other, and the exchange of values over a store."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hemiola.runtime.bootstrap.environment import Environment
from hemiola.runtime.bootstrap.secret import store_secret
from hemiola.runtime.bootstrap.store import LocalStore, Store, StoreServer, TcpStore, wrap_store

CheckPeers = Callable[[], None]
"""Called now and then while a rank waits for others; raises when waiting longer is pointless."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.0002, 0.02
"""Between two reads of a counter in the store: the pause doubles from the first value to the last."""

_lock = threading.Lock()
_stores: dict[tuple[str, int], Store] = {}
_servers: list[StoreServer] = []
"""The servers of this process. They live as long as it does, because later communicators of the job use them too."""


def rendezvous_store(environment: Environment, store: object = None) -> Store:
    """The store through which the ranks of this environment find each other: the given one, or rank 0's own."""
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


@dataclass(frozen=True, slots=True)
class StoreExchange:
    """An all-gather of small values over a store: rank 0 collects what every rank wrote and writes the list once."""

    store: Store
    rank: int
    size: int
    check_peers: CheckPeers | None
    """Without it, only the store's own timeout ends the wait for the other ranks."""

    def all_gather(self, topic: str, value: Any) -> list[Any]:
        """The values that all ranks gave for a topic, in the order of ranks. A value is anything that JSON can hold."""
        if self.size == 1:
            return [value]
        self.store.set(f"{topic}/{self.rank}", json.dumps(value).encode())
        if self.rank == 0:
            self._wait_for(f"{topic}/written", self.size - 1)
            values = [json.loads(self.store.get(f"{topic}/{peer}")) for peer in range(self.size)]
            self.store.set(f"{topic}/all", json.dumps(values).encode())
            self._count(f"{topic}/collected")
            return values
        self._count(f"{topic}/written")
        self._wait_for(f"{topic}/collected", 1)
        collected = json.loads(self.store.get(f"{topic}/all"))
        assert isinstance(collected, list)
        return collected

    def _count(self, counter: str) -> None:
        if self.check_peers is not None:
            self.store.add(counter, 1)

    def _wait_for(self, counter: str, number: int) -> None:
        """Wait until a counter reaches a number, and check the peers meanwhile; without a check, do not wait here."""
        pause = FIRST_PAUSE_SECONDS
        while self.check_peers is not None and self.store.add(counter, 0) < number:
            if pause == LAST_PAUSE_SECONDS:
                self.check_peers()
            time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_SECONDS)
