"""launch_backend: starts the processes of a backend's ranks, with our own launcher or with mpirun."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from hemiola.errors import RunError
from hemiola.runtime.launch import RankProcesses

MPI_MODULE = "hemiola.integrations.bench.mpi_backend"
END_SECONDS = 10.0
"""How long ranks may take to end after the driver closed its connections; then they are killed."""
ONE_THREAD: Mapping[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class LaunchedRanks(Protocol):
    """The processes of all ranks of a backend."""

    @property
    def ended(self) -> bool:
        """Whether a rank has ended; none should before the driver closes its connection."""
        ...

    def exit_reason(self) -> str:
        """Why the ranks ended."""
        ...

    def close(self) -> None:
        """End all ranks."""
        ...


Launch = Callable[[str, int, str, float], LaunchedRanks]
"""Starts the ranks of a backend: its name, how many, the folder with the driver's socket, and the timeout."""


class ForkedRanks:
    """Ranks that our own launcher forked."""

    def __init__(self, ranks: RankProcesses[None]) -> None:
        self._ranks = ranks

    @property
    def ended(self) -> bool:
        """Whether a rank has ended."""
        return self._ranks.has_news

    def exit_reason(self) -> str:
        """Why the ranks ended."""
        try:
            self._ranks.wait(END_SECONDS)
        except RunError as error:
            return str(error)
        return "its ranks ended without a message"

    def close(self) -> None:
        """End all ranks."""
        self._ranks.close()


class SpawnedRanks:
    """Ranks that a command started; what they print is kept for error messages."""

    def __init__(self, spawn: Callable[[dict[str, Any]], Sequence[subprocess.Popen[bytes]]]) -> None:
        """``spawn`` starts the ranks; it is given the keywords of ``Popen`` for their streams."""
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the processes)
        streams = {"stdin": subprocess.DEVNULL, "stdout": self._output, "stderr": self._output}
        try:
            self._processes = list(spawn(streams))
        except BaseException:
            self._output.close()
            raise

    @property
    def ended(self) -> bool:
        """Whether one of them has ended."""
        return any(process.poll() is not None for process in self._processes)

    def exit_reason(self) -> str:
        """The end of what the ranks printed."""
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").split("\n")
        return (
            " ".join(line.strip() for line in lines if line.strip(" -"))[-600:]
            or "its ranks ended without a message"
        )

    def close(self) -> None:
        """Wait until all ranks have ended, and kill those that take too long."""
        for process in self._processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.terminate()
        for process in self._processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._output.close()


def mpirun(num_ranks: int, folder: str) -> list[str]:
    """The command that starts the ranks of MPI. More ranks than cores are allowed, and so is the user root of containers."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [
        "mpirun",
        "--oversubscribe",
        *root,
        "-np",
        str(num_ranks),
        sys.executable,
        "-P",
        "-m",
        MPI_MODULE,
        folder,
    ]


def launch_here(name: str, num_ranks: int, folder: str, timeout: float) -> LaunchedRanks:
    """Start all ranks of a backend on this host."""
    if name == "mpi":
        command, environment = mpirun(num_ranks, folder), {**os.environ, **ONE_THREAD}
        return SpawnedRanks(lambda streams: [subprocess.Popen(command, env=environment, **streams)])
    # These are imported here because each needs a library that only its own processes must have.
    if name == "communicator":
        from hemiola.integrations.bench.communicator_backend import serve_communicator

        return ForkedRanks(RankProcesses(num_ranks, serve_communicator, (num_ranks, folder, timeout)))
    from hemiola.integrations.bench.torch_backend import serve_torch

    return ForkedRanks(RankProcesses(num_ranks, serve_torch, (name, num_ranks, folder, timeout)))
