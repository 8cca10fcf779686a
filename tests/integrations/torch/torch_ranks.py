"""Processes, one per rank, that run functions inside one world of torch.distributed.

Starting them costs seconds, so tests share them: a function of a module that the ranks can import goes to
every rank, and what it returned comes back, by rank.
"""

from __future__ import annotations

import contextlib
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

SECONDS = 60.0
"""For one function; a group that hangs fails its test and not the whole run."""

PRELOADED = ["hemiola.torch", "torch.distributed.fsdp", "torch.distributed.tensor", "torch.nn.parallel"]
"""Imported once, in the process that the ranks are forked from; on few cores that is most of a start."""


class TorchRanks:
    """Ranks 0 to ``size - 1``; started by the first function, and again after one that went wrong."""

    def __init__(self, size: int, backend: str = "hemiola") -> None:
        self.size = size
        self.backend = backend
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._ranks: list[tuple[Any, connection.Connection]] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def run(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """What the function returned on every rank; raises the tracebacks of those where it raised."""
        answers = self.answers(function, *args)
        wrong = [f"rank {rank}: {text}" for rank, (ok, text) in enumerate(answers) if not ok]
        if wrong:
            self.close()
            raise AssertionError("\n".join(wrong))
        return [value for _, value in answers]

    def answers(self, function: Callable[..., Any], *args: Any) -> list[tuple[bool, Any]]:
        """By rank, whether the function returned, and its value; otherwise what happened instead."""
        if not self._ranks:
            self._start()
        for _, pipe in self._ranks:
            pipe.send((function, args))
        return [self._answer(rank) for rank in range(self.size)]

    def close(self) -> None:
        """End every rank, the polite way first."""
        for _, pipe in self._ranks:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process, _ in self._ranks:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        self._ranks = []
        if self._folder is not None:
            self._folder.cleanup()

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        store = str(Path(self._folder.name) / "store")
        for rank in range(self.size):
            here, there = self._context.Pipe()
            process = self._context.Process(
                target=serve, args=(rank, self.size, self.backend, store, there), daemon=True
            )
            process.start()
            there.close()
            self._ranks.append((process, here))

    def _answer(self, rank: int) -> tuple[bool, Any]:
        process, pipe = self._ranks[rank]
        if not connection.wait([pipe, process.sentinel], SECONDS):
            return False, f"no answer within {SECONDS} s"
        try:
            answer: tuple[bool, Any] = pipe.recv()
        except EOFError:
            process.join()
            return False, f"ended with exit code {process.exitcode}"
        return answer


def serve(rank: int, size: int, backend: str, store: str, pipe: connection.Connection) -> None:
    """The life of a rank: join the world, run what comes, leave."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore

    import hemiola.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group(
        backend,
        store=FileStore(store, size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=SECONDS / 2),
    )
    while (task := pipe.recv()) is not None:
        function, args = task
        try:
            pipe.send((True, function(*args)))
        except BaseException:  # noqa: BLE001  # told to the test, which raises it
            pipe.send((False, traceback.format_exc()))
    if dist.is_initialized():
        dist.destroy_process_group()
