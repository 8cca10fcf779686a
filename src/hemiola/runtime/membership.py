"""Membership: a rank finds its peers through a store, shares memory with those on its host, and links to others."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from hemiola import _core
from hemiola.errors import ConnectError, RefusedError
from hemiola.runtime.environment import Environment
from hemiola.runtime.host import boot_id, host_id
from hemiola.runtime.interfaces import choose_address, is_loopback
from hemiola.runtime.links import LinkHello, Listener, connect
from hemiola.runtime.secret import job_secret
from hemiola.runtime.settings import Settings
from hemiola.runtime.store import PrefixedStore, Store

Watch = Callable[[], None]
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.0002, 0.02
"""Between looks at a counter of the store."""
PROBE_SECONDS = 1.0
STORE_SECONDS = 0.5
PEER_LOST, MISMATCH = TOLD_KINDS = 1, 2
"""What a failure can be, as the core counts."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Membership:
    """A rank's place among its peers."""

    endpoint: _core.Endpoint
    group: str
    rank: int
    hosts: tuple[int, ...]
    """Host number of every rank, in the order of first appearance."""
    links: Links | None
    """None where all ranks are on one host."""
    store: Store
    """The part of the store that is this group's alone."""

    def missing_links(self, connections: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Those of the connections (peer, index) that need a link and have none yet."""
        return sorted(
            (peer, index)
            for peer, index in set(connections)
            if not self.endpoint.is_local(peer) and not self.endpoint.has_link(peer, index)
        )

    def try_link(self, peer: int, index: int, seconds: float) -> bool:
        """Make a link, unless it takes longer; whether it is there."""
        assert self.links is not None
        return self.links.make(peer, index, time.monotonic() + seconds)

    def note_failure(self, failure: _core.RunFailure) -> None:
        """Tell ranks on other hosts that have no link yet."""
        kind, _, text = failure
        if kind not in TOLD_KINDS:  # what went wrong in this rank alone is its loss to others
            failure = (PEER_LOST, self.rank, f"rank {self.rank} gave up: {text}")
        if self.links is not None and not self.endpoint.is_forked:
            _bounded(partial(self._note_failure, failure))

    def _note_failure(self, failure: _core.RunFailure) -> None:
        if self.store.add("num_failures", 1) == 1:
            self.store.set("failure", json.dumps(failure).encode())
            self.store.add("num_noted", 1)

    def noted_failure(self) -> _core.RunFailure | None:
        """The failure that another rank has noted, if there is one and the store still answers."""
        return _bounded(self._noted_failure) if self.links is not None else None

    def _noted_failure(self) -> _core.RunFailure | None:
        if self.store.add("num_noted", 0) == 0:
            return None
        kind, rank, text = json.loads(self.store.get("failure"))
        return int(kind), int(rank), str(text)

    def note_waiting(self, peer: int, *, begin: bool) -> None:
        """Note for ranks on other hosts that this one waits for a link to a peer, or no longer does."""
        _bounded(lambda: self.store.add(f"waits/{self.rank}", peer + 1 if begin else -peer - 1))

    def awaited_in_the_end(self, peer: int) -> int:
        """Whom everybody waits for, who waits for a peer that is making links: the last of the chain."""
        seen: list[int] = []
        while peer not in seen:
            seen.append(peer)
            waits_for = _bounded(partial(self.store.add, f"waits/{peer}", 0)) or 0
            peer = waits_for - 1 if waits_for > 0 else peer
        return seen[-1] if peer == seen[-1] else seen[0]

    def leave(self) -> None:
        """Tell the peers, and close what is open."""
        self.endpoint.leave()
        if self.links is not None:
            self.links.close()


class Links:
    """Sockets to ranks on other hosts, made when a plan first needs them: the lower rank of a pair connects.

    The higher one is given the link when it arrives, whether or not it needs it yet.
    """

    def __init__(self, endpoint: _core.Endpoint, group: str, rank: int, address: str, secret: bytes) -> None:
        self._endpoint = endpoint
        self._group = group
        self._rank = rank
        self._secret = secret
        self._arrival = threading.Event()
        self._num_tries = 0
        self._addresses: list[tuple[str, int]] = []
        self._listener = Listener(address, secret, arrive=self._arrive)
        self.address, self.port = self._listener.address, self._listener.port

    def learn(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Where every rank listens."""
        self._addresses = list(addresses)

    def make(self, peer: int, index: int, deadline: float) -> bool:
        """See that the index-th link to a peer is there; whether it is in time."""
        if self._rank > peer:
            return self._await(peer, index, deadline)
        address, port = self._addresses[peer]
        hello = LinkHello(self._group, self._rank, peer, index)
        # From the rank's own interface first; some networks drop what another route would have taken.
        source = None if is_loopback(address) or self._num_tries % 2 else self.address
        self._num_tries += 1
        try:
            made = connect(address, port, self._secret, hello, deadline, source=source)
        except RefusedError:
            raise
        except ConnectError:
            return False
        self._num_tries -= 1
        self._endpoint.join_socket(peer, index, made.detach())
        return True

    def _await(self, peer: int, index: int, deadline: float) -> bool:
        while not self._endpoint.has_link(peer, index):
            self._arrival.clear()
            if self._endpoint.has_link(peer, index):
                break
            if not self._arrival.wait(max(deadline - time.monotonic(), 0)) and time.monotonic() >= deadline:
                return self._endpoint.has_link(peer, index)
        return True

    def _arrive(self, hello: LinkHello, sock: socket.socket) -> None:
        if (hello.group, hello.target) != (self._group, self._rank) or hello.rank >= self._rank:
            sock.close()
            return
        self._endpoint.offer_socket(hello.rank, hello.channel, sock.detach())
        self._arrival.set()

    def is_gone(self, peer: int) -> bool:
        """Whether the peer's host says that nobody listens where the peer listened before."""
        try:
            socket.create_connection(self._addresses[peer], timeout=PROBE_SECONDS).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Take in no more links."""
        self._listener.close()


def join(
    environment: Environment, store: Store, name: str, settings: Settings, *, watch: Watch | None = None
) -> Membership:
    """Meet the other ranks of group ``name`` in the store; returns when all of them are there.

    ``watch`` is called now and then while others are waited for, and raises when there is no point in it; without
    one the store's own timeout is the limit.
    """
    rank, size = environment.rank, environment.world_size
    group = f"{name}/{store.add(f'{name}/made/{rank}', 1)}"
    store = PrefixedStore(store, f"{group}/")
    meeting = _Meeting(store, rank, size, watch)
    agreed = [settings.slots, settings.slot_bytes]

    endpoint = _core.Endpoint(rank, size, settings.slots, settings.slot_bytes)
    table = meeting.exchange(
        "host",
        {
            "host": host_id(),
            "boot": boot_id(),
            "pid": os.getpid(),
            "segment": endpoint.segment,
            "agreed": agreed,
        },
    )
    for peer, entry in enumerate(table):
        if entry["agreed"] != agreed:
            raise ConnectError(
                f"rank {peer} has HEMIOLA_SLOTS and HEMIOLA_SLOT_BYTES {entry['agreed']}, rank {rank} has {agreed}; "
                "give every rank the same"
            )
    numbers: dict[str, int] = {}
    hosts = tuple(numbers.setdefault(entry["host"], len(numbers)) for entry in table)
    for peer, entry in enumerate(table):
        if peer != rank and hosts[peer] == hosts[rank]:
            descriptor = _descriptor_of(peer, entry["pid"], entry["segment"], os.O_RDWR)
            endpoint.join_local(peer, descriptor, 0 if entry["pid"] == os.getpid() else entry["pid"])

    links = None
    if len(numbers) > 1:
        secret = job_secret(environment, store)
        where = choose_address(environment.interfaces, environment.local_rank, environment.master_addr)
        if is_loopback(where) and any(entry["boot"] != boot_id() for entry in table):
            raise ConnectError(
                f"rank {rank} would listen at {where}, which other hosts cannot reach: set HEMIOLA_IFNAME to its "
                "interface, or MASTER_ADDR to an address of rank 0 that is not this host's loopback"
            )
        links = Links(endpoint, group, rank, where, secret)
        heard = meeting.exchange("link", [links.address, links.port, endpoint.open_pipe()])
        links.learn((host, port) for host, port, _ in heard)
        for peer, (_, _, pipe) in enumerate(heard):
            if peer != rank and hosts[peer] == hosts[rank]:
                flags = os.O_WRONLY | os.O_NONBLOCK
                endpoint.join_pipe(peer, _descriptor_of(peer, table[peer]["pid"], pipe, flags))
    meeting.exchange("joined", True)

    num_local = hosts.count(hosts[rank])
    if settings.pin:
        cores = sorted(os.sched_getaffinity(0))
        place = [peer for peer in range(size) if hosts[peer] == hosts[rank]].index(rank)
        os.sched_setaffinity(0, {cores[place % len(cores)]})
    has_links = links is not None
    endpoint.configure(
        settings.num_workers(num_local),
        settings.num_spins(num_local, has_links=has_links),
        settings.yield_seconds,
        settings.timeout,
        settings.crowd_seconds(num_local),
    )
    return Membership(endpoint, name, rank, hosts, links, store)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Every rank tells something and hears what all have told: rank 0 collects and writes the list once."""

    store: Store
    rank: int
    size: int
    watch: Watch | None

    def exchange(self, topic: str, told: Any) -> list[Any]:
        if self.size == 1:
            return [told]
        self.store.set(f"{topic}/{self.rank}", json.dumps(told).encode())
        if self.rank == 0:
            self._await(f"{topic}/told", self.size - 1)
            all_told = [json.loads(self.store.get(f"{topic}/{peer}")) for peer in range(self.size)]
            self.store.set(f"{topic}/all", json.dumps(all_told).encode())
            self._tell(f"{topic}/collected")
            return all_told
        self._tell(f"{topic}/told")
        self._await(f"{topic}/collected", 1)
        heard = json.loads(self.store.get(f"{topic}/all"))
        assert isinstance(heard, list)
        return heard

    def _tell(self, counter: str) -> None:
        if self.watch is not None:
            self.store.add(counter, 1)

    def _await(self, counter: str, number: int) -> None:
        """With a watch, wait until a counter has come so far, and look around meanwhile."""
        pause = FIRST_PAUSE_SECONDS
        while self.watch is not None and self.store.add(counter, 0) < number:
            if pause == LAST_PAUSE_SECONDS:
                self.watch()
            time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_SECONDS)


def _bounded(ask: Callable[[], Answer]) -> Answer | None:
    """What the store answers, if it does so in time: it may be gone with the host that others wait for, too."""
    answers: list[Answer] = []

    def run() -> None:
        with suppress(ConnectError):
            answers.append(ask())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(STORE_SECONDS)
    return answers[0] if answers else None


def _descriptor_of(peer: int, pid: int, number: int, flags: int) -> int:
    """A descriptor of a peer on this host, opened for this process."""
    if pid == os.getpid():
        return os.dup(number)
    try:
        return os.open(f"/proc/{pid}/fd/{number}", flags | os.O_CLOEXEC)
    except OSError as error:
        raise ConnectError(
            f"rank {peer} is on this host as process {pid}, but its memory cannot be opened ({error.strerror}); "
            "has it ended, or is it another user's? HEMIOLA_HOST_ID tells hosts apart by hand"
        ) from error
