"""Lanes: the engines of a communicator, one for each order in which calls are made.

All ranks make their calls in the same order. Callbacks run when calls end, which is at another moment on every rank, so
the calls that callbacks make have no common order with those of the program. They therefore have a lane of their own: a
group of the same ranks with an engine, which is made when a callback first makes a call. Within a lane the order is
that of the callbacks, which is the same on all ranks (``CallbackThread``).
"""

from __future__ import annotations

import threading

from hemiola.runtime.bootstrap.environment import Environment
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.callback_thread import current_callbacks
from hemiola.runtime.communicator.engine import Engine
from hemiola.runtime.communicator.subgroup import join_subgroup


class Lanes:
    """The engine of a communicator for the program, and those for callbacks."""

    def __init__(self, program: Engine, store: Store, environment: Environment) -> None:
        self.program = program
        self._store = store
        self._environment = environment
        self._callbacks: dict[str, Engine] = {}
        self._lock = threading.Lock()

    def current(self) -> Engine:
        """The engine for calls of the current thread."""
        whose = current_callbacks()
        if whose is None:
            return self.program
        with self._lock:
            engine = self._callbacks.get(whose)
            if engine is None:
                engine = self._callbacks[whose] = self._join(whose)
            return engine

    def close(self) -> None:
        """Wait for the calls and the callbacks under way, and leave the groups."""
        self.program.finish()
        while self._callbacks:
            for whose in list(self._callbacks):
                self._callbacks.pop(whose).close()
        self.program.close()

    def _join(self, whose: str) -> Engine:
        self.program.check_open()
        environment = self._environment
        peers = tuple(peer for peer in range(environment.world_size) if peer != environment.rank)
        name = f"{self.program.membership.group}/callbacks of {whose}"
        membership = join_subgroup(
            self.program, peers, environment, self._store, name, "make the call of this callback"
        )
        return Engine(membership, self.program.settings)
