"""Membership: one rank of a group with its peers, and what it tells peers to which it has no link yet."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hemiola import _core
from hemiola._core import RunFailure, RunFailureKind
from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap.peer_links import PeerLinks
from hemiola.runtime.bootstrap.store import Store

STORE_SECONDS = 0.5
TOLD_AS_THEY_ARE = (RunFailureKind.PEER_LOST, RunFailureKind.MISMATCH)
"""What went wrong otherwise went wrong in one rank alone, and is its loss to others."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Membership:
    """One rank of a group, with its connections to the other ranks."""

    endpoint: _core.Endpoint
    group: str
    rank: int
    hosts: tuple[int, ...]
    """The host of every rank; hosts are numbered in the order of their first rank."""
    links: PeerLinks | None
    """None where all ranks are on one host."""
    store: Store
    """The keys of the store that belong to this group alone."""

    def missing_links(self, connections: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """The connections (peer, index) to ranks of other hosts for which no link exists yet."""
        return sorted(
            (peer, index)
            for peer, index in set(connections)
            if not self.endpoint.is_local(peer) and not self.endpoint.has_link(peer, index)
        )

    def try_link(self, peer: int, index: int, seconds: float) -> bool:
        """Try for some seconds to make a link; returns whether it exists now."""
        assert self.links is not None
        return self.links.make(peer, index, time.monotonic() + seconds)

    def note_failure(self, failure: RunFailure) -> None:
        """Tell ranks on other hosts that have no link yet."""
        if failure.kind not in TOLD_AS_THEY_ARE:
            words = f"rank {self.rank} gave up: {failure.text}"
            failure = RunFailure(RunFailureKind.PEER_LOST, self.rank, words)
        if self.links is not None and not self.endpoint.is_forked:
            _bounded(partial(self._note_failure, failure))

    def _note_failure(self, failure: RunFailure) -> None:
        if self.store.add("num_failures", 1) == 1:
            self.store.set("failure", json.dumps((failure.kind.name, failure.rank, failure.text)).encode())
            self.store.add("num_noted", 1)

    def noted_failure(self) -> RunFailure | None:
        """The failure that another rank has noted, if there is one and the store still answers."""
        return _bounded(self._noted_failure) if self.links is not None else None

    def _noted_failure(self) -> RunFailure | None:
        if self.store.add("num_noted", 0) == 0:
            return None
        kind, rank, text = json.loads(self.store.get("failure"))
        return RunFailure(RunFailureKind[kind], int(rank), str(text))

    def note_waiting(self, peer: int, *, begin: bool) -> None:
        """Write to the store whether this rank waits for a link to a peer, for ranks on other hosts."""
        _bounded(lambda: self.store.add(f"waits/{self.rank}", peer + 1 if begin else -peer - 1))

    def awaited_in_the_end(self, peer: int) -> int:
        """The rank at the end of the chain of waits that begins with ``peer``: peer waits for A, A for B, and B for nobody.

        In a cycle it is ``peer`` itself.
        """
        seen: list[int] = []
        while peer not in seen:
            seen.append(peer)
            waits_for = _bounded(partial(self.store.add, f"waits/{peer}", 0)) or 0
            peer = waits_for - 1 if waits_for > 0 else peer
        return seen[-1] if peer == seen[-1] else seen[0]

    def leave(self) -> None:
        """Tell the peers that this rank leaves, and close its connections."""
        self.endpoint.leave()
        if self.links is not None:
            self.links.close()


def _bounded(ask: Callable[[], Value]) -> Value | None:
    """The reply of the store; None if it takes too long, since the lost host may be the one that holds the store."""
    replies: list[Value] = []

    def run() -> None:
        with suppress(ConnectError):
            replies.append(ask())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(STORE_SECONDS)
    return replies[0] if replies else None
