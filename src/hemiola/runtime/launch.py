"""Launch: one function on N ranks of this machine, as threads of this process or as processes of their own.

Threads share one process and a store in memory. Processes come from a *nursery*: a fresh interpreter that
loads the function's module once and then forks the ranks, so that N ranks cost one start, and no process
with threads is ever forked. Whatever happens, nobody is left behind: the nursery ends the ranks when one of
them has failed, when it is told to, or when this process is gone, and the kernel ends the ranks when the
nursery is gone. Nothing is written to disk.
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
"""How long the other ranks may go on after one has failed, to find that out by themselves."""
WATCH_SECONDS = 1.0
"""How often the nursery looks whether the process that asked for it is still there."""
PR_SET_PDEATHSIG = 1

RankKind = Literal["threads", "processes"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How one rank ended."""

    rank: int
    result: Any = None
    error: BaseException | None = None
    lost: str | None = None
    """How the process died, where it did not live to say anything."""

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
    """``function(rank, store, *arguments)`` on every rank; the results in the order of ranks.

    For processes, the function is found by its name in its module, and what goes in and out is pickled. When
    a rank fails, the others get ``grace`` seconds to notice, and what the first one raised is the cause of a
    RunError that names it. ``timeout`` is for the whole run, in seconds. Processes are then killed; threads
    cannot be, and go on until they notice.
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
    """Ranks that are processes, children of a nursery; leaving the ``with`` block ends them, whatever they do."""

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
            self._nursery: BaseProcess = context.Process(target=_nurse, args=body, name="nursery")
            _start(self._nursery, function)
            far_end.close()
            stack.callback(self._end_nursery)
            self._stack = stack.pop_all()

    @property
    def has_news(self) -> bool:
        """Whether a rank has ended, so that ``wait`` has something to say."""
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
                raise RunError(f"the process that started the ranks {self._how_nursery_died()}") from None
        return _results(self._num_ranks, ended, timeout)

    def close(self) -> None:
        """End every process that is still there."""
        self._stack.close()

    def _end_nursery(self) -> None:
        """The closed pipe tells the nursery to end the ranks; one that does not listen is ended itself."""
        self._pipe.close()
        self._nursery.join(GRACE_SECONDS)
        if self._nursery.is_alive():
            self._nursery.kill()
            self._nursery.join()
        self._nursery.close()

    def _how_nursery_died(self) -> str:
        self._nursery.join(GRACE_SECONDS)
        return _describe_exit(self._nursery.exitcode)

    def __enter__(self) -> RankProcesses[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Job:
    """What the nursery is asked to run."""

    num_ranks: int
    function: Callable[..., Any]
    arguments: tuple[object, ...]
    store: tuple[str, int, bytes]
    """Host, port and secret of the store where they meet."""
    grace: float


class _Deadline:
    """A moment that can be moved forward, never back."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def remaining(self) -> float | None:
        """Seconds until then; None where there is no end."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return self._end is not None and time.monotonic() >= self._end

    def end_within(self, seconds: float) -> None:
        """Not later than that from now."""
        end = time.monotonic() + seconds
        self._end = end if self._end is None else min(self._end, end)


def _call(rank: int, function: Callable[..., T], store: Store, arguments: Sequence[object]) -> Ended:
    try:
        return Ended(rank, result=function(rank, store, *arguments))
    except BaseException as error:  # noqa: BLE001 (whatever a rank raises is told to the one who waits for it)
        error.add_note(f"raised on rank {rank}:\n{traceback.format_exc()}")
        return Ended(rank, error=error)


def _results(num_ranks: int, ended: list[Ended], timeout: float | None) -> list[T]:
    """All results in order, or the failure that explains the others."""
    failed = [one for one in ended if one.failed]
    if failed:
        # A rank that only lost another is a witness; the first that failed on its own is the cause.
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


def _start(nursery: BaseProcess, function: Callable[..., object]) -> None:
    try:
        nursery.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise RunError(
            f"{getattr(function, '__qualname__', function)} cannot be handed to processes: {error}; use a function "
            "at the top of a module and arguments that can be pickled, or threads"
        ) from error


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code} before it had a result"


def _nurse(pipe: Connection, parent: int, job: _Job) -> None:
    """The nursery: fork the ranks, hand on how each ends, and leave nobody behind."""
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
        # Libraries may keep idle threads that survive a fork; no thread of ours runs here.
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
    """Tell how a rank ended; whether it failed."""
    try:
        failed, message = bool(reader.recv_bytes()[0]), reader.recv_bytes()
    except (EOFError, ConnectionResetError):
        process.join()
        failed, message = True, pickle.dumps(Ended(rank, lost=_describe_exit(process.exitcode)))
    reader.close()
    pipe.send_bytes(message)
    return failed


def _be_rank(rank: int, writer: Connection, others: list[Connection], nursery: int, job: _Job) -> None:
    """The body of a rank's process."""
    _die_with(nursery)
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
    except Exception as error:  # noqa: BLE001 (anything can go wrong in what others pickle)
        said = (
            _describe_error(ended.error) if ended.error else f"gave a result that cannot be pickled: {error}"
        )
        return pickle.dumps(Ended(ended.rank, lost=said))


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent is gone, and go if it already is."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
