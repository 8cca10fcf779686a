"""What ranks do in the tests of TCP: on one machine, but told that they are on different hosts."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np

from hemiola import Communicator
from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.ir.plan import Plan
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.handle import Handle
from hemiola.runtime.settings import Settings
from runtime.every_collective import check_every_collective, values
from runtime.listening import listening_at
from untrusted_peers import ATTACKS

SECONDS = 60.0


def join(
    rank: int, store: Store, hosts: Sequence[int], *, name: str = "world", settings: Settings | None = None
) -> Communicator:
    """A communicator whose rank ``r`` believes that it is on host ``hosts[r]``, with links over loopback."""
    os.environ["HEMIOLA_HOST_ID"] = f"host {hosts[rank]}"
    os.environ["HEMIOLA_IFNAME"] = "lo"
    group = Communicator(rank, len(hosts), store=store, name=name, timeout=SECONDS, settings=settings)
    assert group.hosts == tuple(hosts)
    return group


def check_collectives(rank: int, store: Store, hosts: Sequence[int], lengths: Sequence[int]) -> None:
    """Every collective, with arrays of every length."""
    with join(rank, store, hosts) as group:
        for length in lengths:
            check_every_collective(group, length)


def run_plans(rank: int, store: Store, hosts: Sequence[int], names: Sequence[str], length: int) -> None:
    """All-reduce by plans of the library, in messages of a few tiles."""
    with join(rank, store, hosts, settings=Settings(slots=2, slot_bytes=4096)) as group:
        for name in names:
            array = values(rank, length)
            group.run(library_plan(name, len(hosts)), array)
            np.testing.assert_array_equal(array, sum(values(other, length) for other in range(len(hosts))))


def library_plan(name: str, num_ranks: int) -> Plan:
    """An algorithm with its parameters written behind it: ``allreduce_hierarchical levels=2,2``."""
    algorithm, *parameters = name.split()
    written = dict(parameter.split("=") for parameter in parameters)
    return compile_program(build(algorithm, {"ranks": str(num_ranks), "in_place": "true", **written})).plan


def call_at_random(rank: int, store: Store, hosts: Sequence[int], seed: int, number: int) -> None:
    """Small calls of random kinds and sizes, the same on every rank, with random pauses that are not."""
    same, own = random.Random(seed), random.Random(seed * 100 + rank)
    size = len(hosts)
    with join(rank, store, hosts) as group:
        for _ in range(number):
            kind, length, root = same.randrange(4), same.choice([0, 1, 3, 64, 1000]), same.randrange(size)
            if own.random() < 0.05:
                time.sleep(0.003)
            array = values(rank, length)
            if kind == 0:
                group.all_reduce(array)
                expected = sum(values(other, length) for other in range(size))
            elif kind == 1:
                group.broadcast(array, root=root)
                expected = values(root, length)
            elif kind == 2:
                given, array = array, np.full(size * length, -1, np.float32)
                group.all_gather(given, array)
                expected = np.concatenate([values(other, length) for other in range(size)])
            else:
                group.reduce(array, root=root, op="max")
                expected = np.max([values(other, length) for other in range(size)], axis=0)
                if rank != root:
                    continue
            np.testing.assert_array_equal(array, expected)


def keep_many_in_flight(rank: int, store: Store, hosts: Sequence[int], number: int) -> None:
    """Calls of several communicators at once, started on every rank in another order."""
    size = len(hosts)
    groups = [join(rank, store, hosts, name=f"group {k}") for k in range(3)]
    flights: list[tuple[Handle, np.ndarray, int]] = []
    for turn in range(number):
        for k in random.Random(rank + turn).sample(range(3), 3):
            length = 1 + 997 * ((turn * 7 + k) % 11)
            array = values(rank, length, salt=turn)
            handle = groups[k].all_reduce(array, wait=False)
            assert handle is not None
            flights.append((handle, array, turn))
    for handle, array, turn in flights:
        handle.wait(SECONDS)
        np.testing.assert_array_equal(
            array, sum(values(other, array.size, salt=turn) for other in range(size))
        )
    for group in groups:
        group.close()


def squeeze_buffers(rank: int, store: Store, hosts: Sequence[int], lengths: Sequence[int]) -> int:
    """Every collective over sockets that send a few KiB at a time and hold little more; how many sockets."""
    detach, squeezed = socket.socket.detach, [0]

    def squeeze_and_detach(sock: socket.socket) -> int:
        """A link is a socket that Python hands over to the core."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # a segment on loopback has 64 KiB
        squeezed[0] += 1
        return detach(sock)

    with patch.object(socket.socket, "detach", squeeze_and_detach):
        check_collectives(rank, store, hosts, lengths)
    return squeezed[0]


def stop_now_and_then(rank: int, store: Store, hosts: Sequence[int], number: int, length: int) -> None:
    """Rank 0 stands still for a moment again and again, in the middle of whatever it does."""
    with join(rank, store, hosts) as group:
        child = _stopper(os.getpid()) if rank == 0 else 0
        for turn in range(number):
            array = values(rank, length, salt=turn)
            group.all_reduce(array)
            np.testing.assert_array_equal(
                array, sum(values(other, length, salt=turn) for other in range(len(hosts)))
            )
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.kill(os.getpid(), signal.SIGCONT)


def _stopper(process: int) -> int:
    """A child that stops its parent for 30 ms, and lets it run for about as long."""
    child = os.fork()
    if child:
        return child
    while os.getppid() == process:
        time.sleep(0.03)
        os.kill(process, signal.SIGSTOP)
        time.sleep(0.03)
        os.kill(process, signal.SIGCONT)
    os._exit(0)


def work_among_strangers(rank: int, store: Store, hosts: Sequence[int], rounds: int) -> int:
    """Sum on while others knock at this rank's port; how many knocks there were."""
    with join(rank, store, hosts) as group:
        (where,) = listening_at(os.getpid())
        stop, knocks, refused = threading.Event(), [0], list[BaseException]()

        def attack() -> None:
            try:
                while not stop.is_set():
                    for knock in ATTACKS:
                        knock(where)
                        knocks[0] += 1
            except BaseException as error:  # noqa: BLE001 (raised again below)
                refused.append(error)

        attacker = threading.Thread(target=attack)
        attacker.start()
        turn = 0
        more = np.ones(1, np.float32)
        while more[0]:
            check_every_collective(group, 1 + 1013 * turn)
            turn += 1
            more[0] = turn < rounds or knocks[0] < len(ATTACKS)
            group.all_reduce(more, op="max")
        stop.set()
        attacker.join()
        if refused:
            raise refused[0]
    return knocks[0]
