"""Launch: runs one function on N ranks of this machine, as threads of this process or as processes.

Threads share one process and a store in memory. Processes are forked by a *fork server*: a new interpreter that loads
the module of the function once, so that N ranks cost one start of Python and no process with threads is ever forked.
No process is left behind: the fork server ends the ranks when one of them has failed, when it is told to, or when this
process has ended, and the kernel kills the ranks when the fork server has ended. Nothing is written to disk.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

from hemiola.errors import HemiolaError, PeerLostError, RunError
from hemiola.runtime.bootstrap.store import LocalStore, Store, StoreServer, TcpStore

T = TypeVar("T")

GRACE_SECONDS = 5.0
"""How long the other ranks may run after one has failed, so that they can report what they noticed."""
WATCH_SECONDS = 1.0
"""How often the fork server checks whether the process that started it is alive."""
PR_SET_PDEATHSIG = 1

RankKind = Literal["threads", "processes"]


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of one rank, or why it has none."""

    rank: int
    result: Any = None
    error: BaseException | None = None
    lost: str | None = None
    """How the process died, if it could not report an error itself."""

    @property
    def failed(self) -> bool:
        """Whether there is no result."""
        return self.error is not None or self.lost is not None


def run_ranks(
    num_ranks: int,
    function: Callable[..., T],
    *arguments: object,
    kind: RankKind = "threads",
    timeout: float | None = None,
    grace: float = GRACE_SECONDS,
) -> list[T]:
    """Call ``function(rank, store, *arguments)`` on every rank; returns the results in the order of ranks.

    Processes import the function by its name from its module, and its arguments and results are pickled. When a rank
    fails, the others get ``grace`` seconds to notice, and a RunError names the first rank that failed and has its
    exception as its cause. ``timeout`` limits the whole run, in seconds. After it processes are killed; threads cannot
    be killed and run until they end by themselves.
    """
    if kind == "threads":
        return RankThreads(num_ranks, function, arguments, grace).wait(timeout)
    with RankProcesses(num_ranks, function, arguments, grace) as ranks:
        return ranks.wait(timeout)


class RankThreads(Generic[T]):
    """Ranks that are threads of this process."""

    def __init__(
        self,
        num_ranks: int,
        function: Callable[..., T],
        arguments: Sequence[object],
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._store = LocalStore()
        self._grace = grace
        self._news = threading.Condition()
        self._ended: list[Ended] = []
        self._num_ranks = num_ranks
        for rank in range(num_ranks):
            body = (rank, function, arguments)
            threading.Thread(target=self._run, args=body, name=f"rank {rank}", daemon=True).start()

    def _run(self, rank: int, function: Callable[..., T], arguments: Sequence[object]) -> None:
        ended = _call(rank, function, self._store, arguments)
        with self._news:
            self._ended.append(ended)
            self._news.notify_all()

    def wait(self, timeout: float | None = None) -> list[T]:
        """The results of all ranks; raises RunError when one failed or the time is over."""
        deadline = _Deadline(timeout)
        with self._news:
            while len(self._ended) < self._num_ranks and not deadline.is_over:
                if any(ended.failed for ended in self._ended):
                    deadline.end_within(self._grace)
                self._news.wait(deadline.remaining)
            return _results(self._num_ranks, self._ended, timeout)


class RankProcesses(Generic[T]):
    """Ranks that are processes, forked by a fork server; leaving the ``with`` block kills those that still run."""

    def __init__(
        self,
        num_ranks: int,
        function: Callable[..., T],
        arguments: Sequence[object],
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._num_ranks = num_ranks
        context = multiprocessing.get_context("spawn")
        with ExitStack() as stack:
            server = stack.enter_context(StoreServer())
            store = (server.address, server.port, server.secret)
            self._pipe, far_end = context.Pipe()
            stack.callback(self._pipe.close)
            body = (far_end, os.getpid(), _Job(num_ranks, function, tuple(arguments), store, grace))
            self._fork_server: BaseProcess = context.Process(
                target=_serve_forks, args=body, name="fork server"
            )
            _start(self._fork_server, function)
            far_end.close()
            stack.callback(self._end_fork_server)
            self._stack = stack.pop_all()

    @property
    def has_news(self) -> bool:
        """Whether a rank has ended, so that ``wait`` would not block for its result."""
        return self._pipe.poll()

    def wait(self, timeout: float | None = None) -> list[T]:
        """The results of all ranks; raises RunError when one failed or the time is over."""
        deadline = _Deadline(timeout)
        ended: list[Ended] = []
        while len(ended) < self._num_ranks and not deadline.is_over:
            if not wait([self._pipe], deadline.remaining):
                continue
            try:
                ended.append(pickle.loads(self._pipe.recv_bytes()))
            except (EOFError, ConnectionResetError):
                raise RunError(f"the process that started the ranks {self._how_fork_server_died()}") from None
        return _results(self._num_ranks, ended, timeout)

    def close(self) -> None:
        """End every process that still runs."""
        self._stack.close()

    def _end_fork_server(self) -> None:
        """Closing the pipe tells the fork server to end the ranks; it is killed if it does not end in time."""
        self._pipe.close()
        self._fork_server.join(GRACE_SECONDS)
        if self._fork_server.is_alive():
            self._fork_server.kill()
            self._fork_server.join()
        self._fork_server.close()

    def _how_fork_server_died(self) -> str:
        self._fork_server.join(GRACE_SECONDS)
        return _describe_exit(self._fork_server.exitcode)

    def __enter__(self) -> RankProcesses[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Job:
    """What the fork server runs."""

    num_ranks: int
    function: Callable[..., Any]
    arguments: tuple[object, ...]
    store: tuple[str, int, bytes]
    """The address, the port and the secret of the store of the ranks."""
    grace: float


class _Deadline:
    """A point in time that can be moved to an earlier one, never to a later one."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline; None where there is none."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self._end is not None and time.monotonic() >= self._end

    def end_within(self, seconds: float) -> None:
        """Move the deadline to at most this many seconds from now."""
        end = time.monotonic() + seconds
        self._end = end if self._end is None else min(self._end, end)


def _call(rank: int, function: Callable[..., T], store: Store, arguments: Sequence[object]) -> Ended:
    try:
        return Ended(rank, result=function(rank, store, *arguments))
    except BaseException as error:  # noqa: BLE001 (whatever a rank raises is passed to the caller of wait)
        error.add_note(f"raised on rank {rank}:\n{traceback.format_exc()}")
        return Ended(rank, error=error)


def _results(num_ranks: int, ended: list[Ended], timeout: float | None) -> list[T]:
    """All results in the order of ranks; raises RunError for the failure that caused the others."""
    failed = [one for one in ended if one.failed]
    if failed:
        # A PeerLostError is the consequence of another rank's failure, so a rank with any other error is the cause.
        cause = min(failed, key=lambda one: isinstance(one.error, PeerLostError))
        said = cause.lost if cause.error is None else _describe_error(cause.error)
        raise RunError(f"rank {cause.rank} {said}") from cause.error
    if len(ended) < num_ranks:
        missing = sorted(set(range(num_ranks)) - {one.rank for one in ended})
        raise RunError(
            f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} did not end within {timeout:g} s; "
            "give more time with timeout"
        )
    return [one.result for one in sorted(ended, key=lambda one: one.rank)]


def _describe_error(error: BaseException) -> str:
    kind = "" if isinstance(error, HemiolaError) else f"{type(error).__name__}: "
    return f"failed: {kind}{error}"


def _start(fork_server: BaseProcess, function: Callable[..., object]) -> None:
    try:
        fork_server.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise RunError(
            f"{getattr(function, '__qualname__', function)} cannot be handed to processes: {error}; use a function "
            "at the top of a module and arguments that can be pickled, or threads"
        ) from error


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code} before it had a result"


def _serve_forks(pipe: Connection, parent: int, job: _Job) -> None:
    """The body of the fork server: fork the ranks, pass on how each of them ends, and kill the others in the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ranks = _fork_ranks(pipe, job)
    deadline = _Deadline(None)
    try:
        while ranks and not deadline.is_over and os.getppid() == parent:
            remaining = deadline.remaining
            ready = wait(
                [pipe, *ranks], WATCH_SECONDS if remaining is None else min(WATCH_SECONDS, remaining)
            )
            if pipe in ready:
                return
            for reader in ready:
                assert isinstance(reader, Connection)
                if _hand_on(pipe, reader, *ranks.pop(reader)):
                    deadline.end_within(job.grace)
        for reader, (rank, process) in ranks.items():
            process.kill()
            lost = f"did not end within {job.grace:g} s after another had failed"
            pipe.send_bytes(pickle.dumps(Ended(rank, lost=lost)))
            reader.close()
    except (BrokenPipeError, ConnectionResetError):
        return
    finally:
        for process in multiprocessing.active_children():
            process.kill()
            process.join()


def _fork_ranks(pipe: Connection, job: _Job) -> dict[Connection, tuple[int, BaseProcess]]:
    context = multiprocessing.get_context("fork")
    ranks: dict[Connection, tuple[int, BaseProcess]] = {}
    with warnings.catch_warnings():
        # Python warns of threads; those of imported libraries are idle here, and Hemiola has started none.
        warnings.simplefilter("ignore", DeprecationWarning)
        for rank in range(job.num_ranks):
            reader, writer = context.Pipe(duplex=False)
            body = (rank, writer, [pipe, reader, *ranks], os.getpid(), job)
            process = context.Process(target=_be_rank, args=body, name=f"rank {rank}")
            process.start()
            writer.close()
            ranks[reader] = (rank, process)
    return ranks


def _hand_on(pipe: Connection, reader: Connection, rank: int, process: BaseProcess) -> bool:
    """Pass on how a rank ended; returns whether it failed."""
    try:
        failed, message = bool(reader.recv_bytes()[0]), reader.recv_bytes()
    except (EOFError, ConnectionResetError):
        process.join()
        failed, message = True, pickle.dumps(Ended(rank, lost=_describe_exit(process.exitcode)))
    reader.close()
    pipe.send_bytes(message)
    return failed


def _be_rank(rank: int, writer: Connection, others: list[Connection], fork_server: int, job: _Job) -> None:
    """The body of the process of one rank."""
    _die_with(fork_server)
    for connection in others:
        connection.close()
    with TcpStore(*job.store) as store:
        ended = _call(rank, job.function, store, job.arguments)
    writer.send_bytes(bytes([ended.failed]))
    writer.send_bytes(_pickled(ended))
    writer.close()


def _pickled(ended: Ended) -> bytes:
    try:
        message = pickle.dumps(ended)
        pickle.loads(message)
        return message
    except Exception as error:  # noqa: BLE001 (pickling calls code of the user, which can raise anything)
        said = (
            _describe_error(ended.error) if ended.error else f"gave a result that cannot be pickled: {error}"
        )
        return pickle.dumps(Ended(ended.rank, lost=said))


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends, and exit if it has already ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
