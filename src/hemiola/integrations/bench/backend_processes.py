"""BackendProcesses: the processes of one backend, seen from the driver, which tells them when to run what."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from importlib.util import find_spec
from typing import IO, Any

from hemiola.errors import RunError
from hemiola.integrations.bench.backend import MPI_LACKS, Task
from hemiola.integrations.bench.launch_backend import Launch, launch_here

BACKENDS = ("hemiola", "gloo", "communicator", "mpi")
"""``hemiola`` and ``gloo`` are called through torch.distributed, ``communicator`` and ``mpi`` with NumPy arrays."""
COMPARED_WITH = {"gloo": "hemiola", "mpi": "communicator"}
"""Which backend of Hemiola is compared with another library: the one that is called the same way, with the same arrays."""
START_SECONDS = 120.0
"""How long the processes of a backend may take to start."""
POLL_SECONDS = 0.2


class BackendProcesses:
    """The processes of one backend. They are started at once; ``wait_for_ranks`` makes the connection to each."""

    def __init__(self, name: str, num_ranks: int, timeout: float, launch: Launch = launch_here) -> None:
        self.name = name
        self._num_ranks = num_ranks
        self._timeout = timeout
        self._lines: list[IO[str]] = []
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hemiola-bench-"))
            self._listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            self._listener.bind(os.path.join(folder, "driver"))
            self._listener.listen(num_ranks)
            self._processes = launch(name, num_ranks, folder, timeout)
            stack.callback(self._processes.close)
            self._stack = stack.pop_all()

    def wait_for_ranks(self) -> None:
        """Wait until every rank has started; raises RunError when one does not."""
        self._listener.settimeout(POLL_SECONDS)
        deadline = time.monotonic() + START_SECONDS
        lines_of: dict[int, IO[str]] = {}
        while len(lines_of) < self._num_ranks:
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                if self._processes.ended or time.monotonic() > deadline:
                    raise self._lost() from None
                continue
            with sock:
                sock.settimeout(self._timeout)
                lines = self._stack.enter_context(sock.makefile("rw", encoding="utf-8"))
            lines_of[int(self._hear(lines.readline())["rank"])] = lines
        self._lines = [lines_of[rank] for rank in range(self._num_ranks)]

    def prepare(self, task: Task, key: str = "") -> None:
        """Make buffers for a task, run it once and check its result; raises RunError when it is wrong.

        Several tasks can be prepared at the same time, each under its own key.
        """
        for answer in self._ask({"prepare": asdict(task), "as": key}):
            if answer["wrong"] is not None:
                raise RunError(f"{self.name} computed a wrong {task.kind}: {answer['wrong']}")

    def time_block(self, times: int, key: str = "", *, warm: int = 1) -> float:
        """Seconds per call of the slowest rank, measured after ``warm`` calls that are not counted."""
        return max(
            float(answer["seconds"]) for answer in self._ask({"block": times, "of": key, "warm": warm})
        )

    def release(self) -> None:
        """Free the buffers of all tasks."""
        self._ask({"release": True})

    def _ask(self, command: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            for lines in self._lines:
                lines.write(json.dumps(command) + "\n")
                lines.flush()
            return [self._hear(lines.readline()) for lines in self._lines]
        except (BrokenPipeError, ConnectionResetError):
            raise self._lost() from None
        except TimeoutError:
            said = f"{self.name} did not answer within {self._timeout:g} s; give more time with --timeout"
            raise RunError(said) from None

    def _hear(self, line: str) -> dict[str, Any]:
        if not line:
            raise self._lost()
        answer = json.loads(line)
        assert isinstance(answer, dict)
        if "failed" in answer:
            raise RunError(f"{self.name} could not go on: {answer['failed']}")
        return answer

    def _lost(self) -> RunError:
        return RunError(f"{self.name} could not go on: {self._processes.exit_reason()}")

    def __enter__(self) -> BackendProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def obstacle(name: str, element: str) -> str | None:
    """Why a backend cannot be measured here and what to do about it, in one sentence; None when it can."""
    if name in ("gloo", "hemiola") and find_spec("torch") is None:
        return "Gloo is measured through PyTorch, which is not installed; install it with: pip install torch"
    if name == "mpi" and (find_spec("mpi4py") is None or shutil.which("mpirun") is None):
        return "MPI is not installed; install Open MPI and mpi4py with: make mpi"
    if name == "mpi" and element in MPI_LACKS:
        return f"MPI has no {element}; use another --dtype, or leave mpi out of --against"
    return None
