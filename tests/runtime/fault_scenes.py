"""What ranks do in tests of faults and of what stays behind, each for one test."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from hemiola import Communicator
from hemiola.errors import ConnectError, HemiolaError, PeerLostError
from hemiola.runtime.settings import Settings
from runtime.fault_calls import Call, perform, random_calls
from runtime.fault_crew import Seat
from runtime.fault_leftovers import Holdings, segments_of

TIMEOUT_SECONDS = 20.0
ALL_REDUCE = Call("all_reduce", 1000, "float32", "sum", 0, 1)
LARGE_BROADCAST = Call("broadcast", 1 << 18, "float32", "sum", 0, 1)


@dataclass(frozen=True, slots=True)
class Held:
    """What a rank held before and after."""

    before: Holdings
    after: Holdings


@dataclass(frozen=True, slots=True)
class Ready:
    """A rank is where the test wants it."""

    segments: frozenset[int] = frozenset()
    child: int = 0
    """A process of its own, where it has one."""


@dataclass(frozen=True, slots=True)
class Failed:
    """What a rank raised, and when."""

    error: str
    lost: int | None
    text: str
    at: float


def failure_of(error: BaseException) -> Failed:
    lost = error.rank if isinstance(error, PeerLostError) else None
    return Failed(type(error).__name__, lost, str(error), time.monotonic())


def come_and_go(seat: Seat, num_times: int) -> None:
    """Make, use and close communicators one after another, and keep them all."""
    before = Holdings.now(seat.store_port)
    kept = []
    for number in range(num_times):
        comm = seat.communicator(timeout=TIMEOUT_SECONDS, name=f"world {number}")
        perform(comm, ALL_REDUCE)
        handle = comm.all_reduce(np.ones(10), wait=False)
        assert handle is not None
        handle.wait()
        comm.close()
        kept.append(comm)
    seat.tell(Held(before, Holdings.now(seat.store_port)))


def exchange_messages(seat: Seat) -> None:
    """Send to the next rank and receive from the one before, then close."""
    before = Holdings.now(seat.store_port)
    with seat.communicator(timeout=TIMEOUT_SECONDS) as comm:
        handle = comm.send(np.full(100_000, seat.rank), (seat.rank + 1) % seat.size, wait=False)
        assert handle is not None
        data = np.zeros(100_000, np.int64)
        comm.recv(data, (seat.rank - 1) % seat.size)
        handle.wait()
        assert (data == (seat.rank - 1) % seat.size).all()
    seat.tell(Held(before, Holdings.now(seat.store_port)))


def disagree(seat: Seat) -> None:
    """Ask for a communicator that cannot be: rank 1 has other slots."""
    before = Holdings.now(seat.store_port)
    settings = Settings(slots=8 if seat.rank == 1 else 4)
    try:
        Communicator(seat.rank, seat.size, store=seat.store, settings=settings)
    except ConnectError as error:
        failed = failure_of(error)
    gc.collect()
    seat.tell(failed)
    seat.tell(Held(before, Holdings.now(seat.store_port)))


def call_for_ever(seat: Seat) -> None:
    """Work until the end."""
    comm = seat.communicator(timeout=TIMEOUT_SECONDS)
    perform(comm, ALL_REDUCE)
    seat.tell(Ready(segments_of("self")))
    try:
        while True:
            perform(comm, ALL_REDUCE)
    except HemiolaError as error:
        seat.tell(failure_of(error))


def hurry_away(seat: Seat, num_times: int) -> None:
    """Close at once after a call in which the root only gives, while slow receivers still take."""
    for number in range(num_times):
        with seat.communicator(timeout=TIMEOUT_SECONDS, name=f"world {number}") as comm:
            perform(comm, ALL_REDUCE)
            if seat.rank != LARGE_BROADCAST.root:
                time.sleep(0.05 * seat.rank)
            perform(comm, LARGE_BROADCAST)
    seat.tell(Ready())


def start_program(seat: Seat) -> None:
    """A communicator in use while another program is started, and has come so far that it reads no file of its own."""
    comm = seat.communicator(timeout=TIMEOUT_SECONDS)
    perform(comm, ALL_REDUCE)
    wait = "import sys; print('up', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", wait]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == b"up\n"
        seat.tell(Ready(segments_of("self"), program.pid))
        seat.hear()
        program.stdin.close()
    comm.close()


def fork_once(seat: Seat, forker: int, workers: int) -> None:
    """One rank forks between two calls; its child tries the communicator, lets it go and lives on."""
    settings = Settings(timeout=TIMEOUT_SECONDS, workers=workers)
    comm = Communicator(seat.rank, seat.size, store=seat.store, settings=settings)
    perform(comm, ALL_REDUCE)
    calls = [partial(perform, comm, ALL_REDUCE), partial(perform, comm, LARGE_BROADCAST)]
    child = 0
    if seat.rank == forker:
        child = os.fork()
        if child == 0:
            seat.tell(_failure_in(partial(perform, comm, ALL_REDUCE)))
            seat.tell(Ready(segments_of("self")))
            del comm, calls
            gc.collect()
            seat.tell(Ready(segments_of("self"), os.getpid()))
            time.sleep(TIMEOUT_SECONDS)
            os._exit(0)
    for _ in range(5):
        for call in calls:
            call()
    seat.hear()
    seat.tell(Ready(segments_of("self"), child))
    try:
        while True:
            perform(comm, ALL_REDUCE)
    except HemiolaError as error:
        seat.tell(failure_of(error))


def wait_for_others(seat: Seat, others: frozenset[int], have_met: bool) -> None:
    """Some ranks come late to a call; who is interrupted meanwhile says so and stays."""
    comm = seat.communicator(timeout=TIMEOUT_SECONDS)
    if have_met:
        perform(comm, ALL_REDUCE)
    seat.tell(Ready())
    if seat.rank in others:
        seat.hear()
    try:
        perform(comm, ALL_REDUCE)
    except (HemiolaError, KeyboardInterrupt) as error:
        seat.tell(failure_of(error))
    seat.hear()


def fail_again_and_again(seat: Seat, victim: int) -> None:
    """A rank ends; what the others have started fails, and so does everything that they try afterwards."""
    comm = seat.communicator(timeout=TIMEOUT_SECONDS)
    perform(comm, ALL_REDUCE)
    if seat.rank == victim:
        os._exit(0)
    handles = [comm.all_reduce(np.ones(100_000), wait=False) for _ in range(5)]
    for handle in handles:
        assert handle is not None
        seat.tell(_failure_in(handle.wait))
    for attempt in (
        comm.barrier,
        partial(perform, comm, LARGE_BROADCAST),
        partial(perform, comm, ALL_REDUCE),
    ):
        seat.tell(_failure_in(attempt))


def _failure_in(attempt: Callable[[], object]) -> Failed:
    try:
        attempt()
    except HemiolaError as error:
        return failure_of(error)
    return Failed("none", None, "it returned", time.monotonic())


def pass_messages(seat: Seat, source: int, target: int, first: int) -> None:
    """Send messages from one rank to another, on and on; the others wait."""
    comm = seat.communicator(timeout=TIMEOUT_SECONDS)
    data = np.arange(100_000)
    move = {source: partial(comm.send, peer=target), target: partial(comm.recv, peer=source)}.get(seat.rank)
    if move is None:
        seat.hear()
        return
    for _ in range(first):
        move(data)
    seat.tell(Ready())
    while (failed := _failure_in(partial(move, data))).error == "none":
        pass
    seat.tell(failed)


def work_in_peace(seat: Seat, num_calls: int, timeout: float, late: float) -> None:
    """Calls that all succeed, although everybody is late at times."""
    calls = islice(random_calls(num_calls, seat.size), num_calls)
    with seat.communicator(timeout=timeout) as comm:
        seat.tell(Ready())
        for number, call in enumerate(calls):
            if late and number % seat.size == seat.rank:
                time.sleep(late)
            perform(comm, call)
        comm.barrier()
    seat.tell(Ready())
