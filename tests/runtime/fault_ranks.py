"""What ranks do in the tests of faults: random calls until one of them is lost, and then on without it."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from hemiola import Communicator
from hemiola.errors import HemiolaError, PeerLostError
from runtime.fault_calls import Call, WrongResultError, perform, random_calls
from runtime.fault_crew import Seat
from runtime.fault_leftovers import Holdings, links_of_this_process, segments_of

FaultKind = Literal["kill", "stop", "resume", "interrupt", "exit", "leave", "close", "cut", "hang"]
KINDS: tuple[FaultKind, ...] = (
    "kill", "stop", "hang", "kill", "interrupt", "exit", "kill", "resume", "close", "cut", "leave",
)  # fmt: skip
ON_ITS_OWN: tuple[FaultKind, ...] = ("exit", "leave", "close", "cut", "hang")
"""What the victim does itself, between two calls; the rest is a signal at any moment."""
WITHIN_TIMEOUT: tuple[FaultKind, ...] = ("stop", "resume", "hang")
"""The process and its connections live on, so that only time can tell."""
LAYOUTS = ((0, 0, 0), (0, 0, 0, 0, 0), (0, 1, 2), (0, 1, 2, 3), (0, 0, 1, 1), (0, 0, 0, 1))
"""The host of every rank."""
LONG_TIMEOUT = 20.0
"""Where something else than time is to tell."""
SURVIVOR_CALLS = 4


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to whom and when."""

    seed: int
    hosts: tuple[int, ...]
    kind: FaultKind
    victim: int
    first_calls: int
    """How many calls the victim makes before."""
    delay: float
    """Seconds from then to the signal."""
    timeout: float

    @staticmethod
    def draw(seed: int) -> Fault:
        """The seed-th fault: its kind by turns, the rest by chance."""
        chance = random.Random(seed)
        kind = KINDS[seed % len(KINDS)]
        # A rank that is cut off names others to those with whom it shares memory; with sockets alone all agree.
        hosts = chance.choice([hosts for hosts in LAYOUTS if kind != "cut" or len(set(hosts)) == len(hosts)])
        return Fault(
            seed,
            hosts,
            kind,
            chance.randrange(len(hosts)),
            chance.choice((0, 0, 1, 2, 5, 10)),
            chance.uniform(0.0, 0.05),
            chance.uniform(1.0, 2.0) if kind in WITHIN_TIMEOUT else LONG_TIMEOUT,
        )

    @property
    def survivors(self) -> list[int]:
        """Everybody else."""
        return [rank for rank in range(len(self.hosts)) if rank != self.victim]


@dataclass(frozen=True, slots=True)
class AtWork:
    """The rank has made its communicator; the victim also its first calls."""

    segments: frozenset[int]


@dataclass(frozen=True, slots=True)
class Happened:
    """The victim has done it, at a time of ``time.monotonic``."""

    at: float


@dataclass(frozen=True, slots=True)
class Raised:
    """How the calls of a rank ended."""

    error: str
    """The class."""
    lost: int | None
    """The rank that a PeerLostError names."""
    text: str
    at: float
    """Time of ``time.monotonic``."""
    num_calls: int
    """How many calls returned before, all with the right result."""
    call: Call | None
    """The last one that it began."""


@dataclass(frozen=True, slots=True)
class GoneOn:
    """The survivors have made right calls without the victim."""

    before: Holdings
    after: Holdings


def meet_fault(seat: Seat, fault: Fault) -> None:
    """Make calls until one fails; survivors go on in a smaller communicator."""
    before = Holdings.now(seat.store_port)
    comm = seat.communicator(timeout=fault.timeout)
    calls = random_calls(fault.seed, seat.size)
    if seat.rank == fault.victim:
        _be_victim(seat, comm, calls, fault)
        return
    seat.tell(_call_until_failure(comm, calls, announce=seat))
    comm.close()
    _go_on(seat, fault)
    seat.tell(GoneOn(before, Holdings.now(seat.store_port)))


def _call_until_failure(comm: Communicator, calls: Iterator[Call], *, announce: Seat | None = None) -> Raised:
    """Who is announced can be interrupted from then on."""
    num_calls = 0
    call = None
    try:
        if announce is not None:
            announce.tell(AtWork(segments_of("self")))
        for call in calls:
            perform(comm, call)
            num_calls += 1
    except (HemiolaError, WrongResultError, KeyboardInterrupt) as error:
        lost = error.rank if isinstance(error, PeerLostError) else None
        return Raised(type(error).__name__, lost, str(error), time.monotonic(), num_calls, call)
    raise AssertionError("random calls have no end")


def _be_victim(seat: Seat, comm: Communicator, calls: Iterator[Call], fault: Fault) -> None:
    for call in islice(calls, fault.first_calls):
        perform(comm, call)
    if fault.kind not in ON_ITS_OWN:
        seat.tell(_call_until_failure(comm, calls, announce=seat))
        comm.close()
        return
    if fault.kind == "cut":
        # A communicator makes its connections when it first needs them.
        while not any(links_of_this_process(seat.store_port)):
            perform(comm, next(calls))
    seat.tell(AtWork(segments_of("self")))
    seat.tell(Happened(time.monotonic()))
    match fault.kind:
        case "exit":
            os._exit(3)
        case "close":
            comm.close()
            seat.hear()
        case "cut":
            for link in links_of_this_process(seat.store_port):
                link.shutdown(socket.SHUT_RDWR)
            seat.tell(_call_until_failure(comm, calls))
        case "hang":
            seat.hear()


def _go_on(seat: Seat, fault: Fault) -> None:
    survivors = fault.survivors
    with Communicator(
        survivors.index(seat.rank),
        len(survivors),
        store=seat.store,
        timeout=LONG_TIMEOUT,
        name="survivors",
    ) as comm:
        for call in islice(random_calls(fault.seed + 1, len(survivors)), SURVIVOR_CALLS):
            perform(comm, call)
        comm.barrier()
