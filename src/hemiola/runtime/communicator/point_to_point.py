"""PointToPoint: messages from one rank to another, outside the order of the collectives.

Every direction between two ranks is, for every tag, a group of two ranks with an engine of its own, which is made when
it is first used. The first message therefore blocks until both ranks have called; with ``wait=False`` the thread of the
queue blocks and not the caller.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from hemiola.collectives import CollectiveKind
from hemiola.errors import ConnectError, PeerLostError
from hemiola.runtime.bootstrap.environment import Environment
from hemiola.runtime.bootstrap.join import join
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.arrays import Array, element_of
from hemiola.runtime.communicator.call_queue import CallQueue
from hemiola.runtime.communicator.calls import CallShape
from hemiola.runtime.communicator.engine import Engine
from hemiola.runtime.communicator.handle import Handle
from hemiola.runtime.communicator.numbers import NUMBERS
from hemiola.runtime.plans.plan_source import PlanRequest, PlanSource

SENDER, RECEIVER = 0, 1


class PointToPoint:
    """The point-to-point messages of one rank."""

    def __init__(self, whole: Engine, store: Store, environment: Environment, plans: PlanSource) -> None:
        self._whole = whole
        self._store = store
        self._environment = environment
        self._plans = plans
        self._directions: dict[tuple[int, int, int], Direction] = {}
        self._lock = threading.Lock()

    def send(self, array: Array, peer: int, tag: int, *, wait: bool) -> Handle | None:
        """Send an array to a peer."""
        return self._direction(self._environment.rank, peer, tag, SENDER).move(array, wait=wait)

    def recv(self, array: Array, peer: int, tag: int, *, wait: bool) -> Handle | None:
        """Receive an array from a peer."""
        return self._direction(peer, self._environment.rank, tag, RECEIVER).move(array, wait=wait)

    def close(self) -> None:
        """Wait for the messages under way and close every direction."""
        with self._lock:
            directions, self._directions = list(self._directions.values()), {}
        for direction in directions:
            direction.close()

    def _direction(self, source: int, target: int, tag: int, side: int) -> Direction:
        with self._lock:
            self._whole.check_open()
            key = (source, target, tag)
            if key not in self._directions:
                name = f"{self._whole.membership.group}/{source}to{target}/{tag}"
                environment = replace(self._environment, rank=side, world_size=2)
                ends = (source, target)
                self._directions[key] = Direction(
                    self._whole, self._store, name, ends, environment, self._plans
                )
            return self._directions[key]


class Direction:
    """One direction between two ranks, for one tag: a group of two, in which rank 0 sends to rank 1."""

    def __init__(
        self,
        whole: Engine,
        store: Store,
        name: str,
        ends: tuple[int, int],
        environment: Environment,
        plans: PlanSource,
    ) -> None:
        self._whole = whole
        self._store = store
        self._name = name
        self._ends = ends
        self._environment = environment
        self._plans = plans
        self._engine: Engine | None = None
        self._queue = CallQueue(f"hemiola {name}")

    def move(self, array: Array, *, wait: bool) -> Handle | None:
        """Send or receive an array, after the earlier messages of this direction."""
        if wait and self._queue.num_pending == 0:
            self._run(array)
            return None
        handle = self._queue.put(lambda: self._run(array))
        if not wait:
            return handle
        handle.wait()
        return None

    def close(self) -> None:
        """Wait for the messages under way and leave the group of two."""
        self._queue.close()
        if self._engine is not None:
            self._engine.close()

    def _run(self, array: Array) -> None:
        engine = self._engine or self._join()
        element = element_of(array)
        hosts = engine.membership.hosts
        request = PlanRequest(
            CollectiveKind.SENDRECV, 2, hosts, array.nbytes, in_place=False, root=SENDER, peer=RECEIVER
        )
        choice = self._plans.choose(request)
        shape = CallShape(element, "sum", array.nbytes // NUMBERS[element].storage.itemsize)
        try:
            engine.run(engine.prepare(choice.plan, choice.digest, shape, proven=True), array, array)
        except PeerLostError as error:
            lost, (sender, receiver) = self._ends[error.rank], self._ends
            words = f"rank {lost} was lost between sender {sender} and receiver {receiver}, ranks 0 and 1 of a pair"
            raise PeerLostError(lost, f"{words}: {error}") from None

    def _join(self) -> Engine:
        """Make the group of two; raises when the other rank has failed or does not come in time."""
        deadline = time.monotonic() + self._whole.settings.timeout
        side = self._environment.rank
        peer = self._ends[1 - side]

        def check_peers() -> None:
            self._whole.check_peer(peer)
            if time.monotonic() > deadline:
                what = "receive" if side == SENDER else "send"
                raise PeerLostError(
                    peer, f"rank {peer} did not {what} within {self._whole.settings.timeout:g} s"
                )

        try:
            membership = join(
                self._environment, self._store, self._name, self._whole.settings, check_peers=check_peers
            )
        except ConnectError:
            # The memory of an ending process vanishes shortly before its death can be seen.
            for _ in range(10):
                check_peers()
                time.sleep(0.02)
            raise
        self._engine = Engine(membership, self._whole.settings)
        return self._engine
