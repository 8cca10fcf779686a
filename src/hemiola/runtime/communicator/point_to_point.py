"""PointToPoint: messages from one rank to another, outside the order of the collectives.

Every direction between two ranks is, for every tag, a group of two ranks with an engine of its own, which is made when
it is first used. The first message therefore blocks until both ranks have called; with ``wait=False`` a thread
of the direction blocks and not the caller (``FirstMessages``).
"""

from __future__ import annotations

import threading
from dataclasses import replace

from hemiola._core import RunFailure
from hemiola.collectives import CollectiveKind
from hemiola.errors import HemiolaError, PeerLostError
from hemiola.runtime.bootstrap.environment import Environment
from hemiola.runtime.bootstrap.membership import Membership
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.arrays import Array, element_of
from hemiola.runtime.communicator.callback_thread import CallbackThread
from hemiola.runtime.communicator.calls import CallShape
from hemiola.runtime.communicator.engine import Engine
from hemiola.runtime.communicator.first_messages import FirstMessages
from hemiola.runtime.communicator.handle import Handle
from hemiola.runtime.communicator.numbers import NUMBERS
from hemiola.runtime.communicator.subgroup import join_subgroup
from hemiola.runtime.plans.plan_source import PlanRequest, PlanSource
from hemiola.runtime.settings import Settings

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
        self._engine: PairEngine | None = None
        # Only two ranks run these callbacks, and the calls that they make are for all.
        self._callbacks = CallbackThread(name, has_lane=False)
        self._first = FirstMessages(f"hemiola {name}")

    def move(self, array: Array, *, wait: bool) -> Handle | None:
        """Send or receive an array, after the earlier messages of this direction."""
        if self._first.is_empty() and (wait or self._engine is not None):
            return self._start(array, wait=wait)
        outcome = self._first.put(lambda: self._start(array, wait=True))
        handle = outcome.handle(self._callbacks)
        if not wait:
            return handle
        handle.wait()
        return None

    def close(self) -> None:
        """Wait for the messages under way and leave the group of two."""
        self._first.wait()
        if self._engine is not None:
            self._engine.close()
        self._callbacks.close()

    def _start(self, array: Array, *, wait: bool) -> Handle | None:
        engine = self._engine or self._join()
        element = element_of(array)
        hosts = engine.membership.hosts
        request = PlanRequest(
            CollectiveKind.SENDRECV, 2, hosts, array.nbytes, in_place=False, root=SENDER, peer=RECEIVER
        )
        choice = self._plans.choose(request)
        shape = CallShape(element, "sum", array.nbytes // NUMBERS[element].storage.itemsize)
        call = engine.prepare(choice.plan, choice.digest, shape, proven=True)
        return engine.start(call, array, array, wait=wait)

    def _join(self) -> PairEngine:
        """Make the group of two; raises when the other rank has failed or does not come in time."""
        side = self._environment.rank
        missing = "receive" if side == SENDER else "send"
        peer = self._ends[1 - side]
        membership = join_subgroup(self._whole, (peer,), self._environment, self._store, self._name, missing)
        self._engine = PairEngine(membership, self._whole.settings, self._ends, self._callbacks)
        return self._engine


class PairEngine(Engine):
    """The engine of a direction. Its errors name ranks of the whole group."""

    def __init__(
        self, membership: Membership, settings: Settings, ends: tuple[int, int], callbacks: CallbackThread
    ) -> None:
        super().__init__(membership, settings, callbacks)
        self._ends = ends

    def error_of(self, failure: RunFailure) -> HemiolaError:
        """The error for what the core reports, with the lost rank as the whole group numbers it."""
        error = super().error_of(failure)
        if not isinstance(error, PeerLostError):
            return error
        lost, (sender, receiver) = self._ends[error.rank], self._ends
        words = (
            f"rank {lost} was lost between sender {sender} and receiver {receiver}, ranks 0 and 1 of a pair"
        )
        return PeerLostError(lost, f"{words}: {error}")
