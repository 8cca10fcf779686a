"""A crew: ranks as processes to which a test may do anything, while it holds their store itself."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from hemiola import Communicator
from hemiola.runtime.bootstrap.store import StoreServer, TcpStore

Message = TypeVar("Message")

GENEROUS_SECONDS = 30.0
"""For what must happen; a test that needs them all has failed."""
LIFE_SECONDS = 120
"""A rank that is forgotten ends itself."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What the process of one rank is given."""

    rank: int
    size: int
    store: TcpStore
    store_port: int
    pipe: Connection

    def communicator(self, *, timeout: float, name: str = "world") -> Communicator:
        """The communicator of the whole crew."""
        return Communicator(self.rank, self.size, store=self.store, timeout=timeout, name=name)

    def tell(self, message: object) -> None:
        """Say something to the test."""
        self.pipe.send(message)

    def hear(self) -> Any:
        """Wait for what the test says."""
        return self.pipe.recv()


Body = Callable[..., None]
"""What a rank does: it is called with its seat and the crew's arguments, at the top of a module."""


class Crew:
    """One process per rank; leaving the ``with`` block kills whoever is still there."""

    def __init__(self, hosts: Sequence[int], body: Body, *arguments: object) -> None:
        """``hosts`` has the host number of every rank: equal numbers share memory, others use sockets."""
        self.num_ranks = len(hosts)
        # Ranks are forked off a clean process that has everything loaded.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["numpy", "hemiola"])
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        with ExitStack() as stack:
            server = stack.enter_context(StoreServer())
            stack.callback(self._end_all)
            for rank, host in enumerate(hosts):
                near, far = context.Pipe()
                where = (server.address, server.port, server.secret)
                process = context.Process(
                    target=_sit_down, args=(rank, len(hosts), f"host {host}", where, far, body, arguments)
                )
                process.start()
                far.close()
                self._processes.append(process)
                self._pipes.append(near)
            self._stack = stack.pop_all()

    def pid(self, rank: int) -> int:
        """The process of a rank."""
        pid = self._processes[rank].pid
        assert pid is not None
        return pid

    def send_signal(self, rank: int, number: signal.Signals) -> float:
        """Send a signal to a rank; the time of ``time.monotonic`` just before."""
        now = time.monotonic()
        os.kill(self.pid(rank), number)
        return now

    def tell(self, rank: int, message: object) -> None:
        """Say something to a rank."""
        self._pipes[rank].send(message)

    def hear(self, rank: int, kind: type[Message], within: float = GENEROUS_SECONDS) -> Message:
        """The next message of a rank, which is of this kind."""
        pipe = self._pipes[rank]
        assert pipe.poll(within), (
            f"rank {rank} said nothing within {within:g} s, {kind.__name__} was expected"
        )
        try:
            message = pipe.recv()
        except (EOFError, ConnectionResetError):
            self._processes[rank].join(GENEROUS_SECONDS)
            raise AssertionError(
                f"rank {rank} ended with exit code {self._processes[rank].exitcode}, {kind.__name__} was expected"
            ) from None
        assert isinstance(message, kind), f"rank {rank} said {message}, {kind.__name__} was expected"
        return message

    def wait_for_end(self, rank: int, within: float = GENEROUS_SECONDS) -> int:
        """The exit code of a rank that ends by itself."""
        self._processes[rank].join(within)
        code = self._processes[rank].exitcode
        assert code is not None, f"rank {rank} did not end within {within:g} s"
        return code

    def _end_all(self) -> None:
        for process in self._processes:
            if process.is_alive():  # the number of one that has ended may be another's by now
                process.kill()
        for process in self._processes:
            process.join()
            process.close()
        for pipe in self._pipes:
            pipe.close()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _sit_down(
    rank: int,
    size: int,
    host: str,
    where: tuple[str, int, bytes],
    pipe: Connection,
    body: Body,
    arguments: tuple[object, ...],
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(LIFE_SECONDS)
    os.environ.update(HEMIOLA_HOST_ID=host, MASTER_ADDR="127.0.0.1")
    body(Seat(rank, size, TcpStore(*where, timeout=GENEROUS_SECONDS), where[1], pipe), *arguments)
