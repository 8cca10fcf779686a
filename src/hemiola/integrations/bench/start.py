"""start: the processes of a contestant, by our own launcher or by mpirun."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from hemiola.errors import RunError
from hemiola.runtime.launch import RankProcesses

MPI_MODULE = "hemiola.integrations.bench.mpi_contestant"
END_SECONDS = 10.0
"""Ranks end with their connection to the driver; they are ended when they do not."""
ONE_THREAD: Mapping[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Processes(Protocol):
    """All ranks of a contestant."""

    @property
    def ended(self) -> bool:
        """Whether a rank has ended, which none should before the driver does."""
        ...

    def last_words(self) -> str:
        """Why they ended."""
        ...

    def close(self) -> None:
        """End them."""
        ...


Start = Callable[[str, int, str, float], Processes]
"""Starts the ranks of a contestant: its name, how many, the folder with the driver's socket, and the timeout."""


class Forked:
    """Processes of our own launcher."""

    def __init__(self, ranks: RankProcesses[None]) -> None:
        self._ranks = ranks

    @property
    def ended(self) -> bool:
        """Whether a rank has ended."""
        return self._ranks.has_news

    def last_words(self) -> str:
        """Why they ended."""
        try:
            self._ranks.wait(END_SECONDS)
        except RunError as error:
            return str(error)
        return "its ranks left without a word"

    def close(self) -> None:
        """End them."""
        self._ranks.close()


class Spawned:
    """Processes that were started by a command, whose words are kept."""

    def __init__(self, spawn: Callable[[dict[str, Any]], Sequence[subprocess.Popen[bytes]]]) -> None:
        """``spawn`` starts them with the keywords of ``Popen`` that it is given."""
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the processes)
        streams = {"stdin": subprocess.DEVNULL, "stdout": self._words, "stderr": self._words}
        try:
            self._processes = list(spawn(streams))
        except BaseException:
            self._words.close()
            raise

    @property
    def ended(self) -> bool:
        """Whether one of them has ended."""
        return any(process.poll() is not None for process in self._processes)

    def last_words(self) -> str:
        """The end of what they printed."""
        self._words.seek(0)
        lines = self._words.read().decode(errors="replace").split("\n")
        return (
            " ".join(line.strip() for line in lines if line.strip(" -"))[-600:]
            or "its ranks left without a word"
        )

    def close(self) -> None:
        """Wait for their end, and end those that take too long."""
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
        self._words.close()


def mpirun(num_ranks: int, folder: str) -> list[str]:
    """The command that starts the ranks of MPI; more ranks than cores are allowed, and so is root, who runs containers."""
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


def start_here(name: str, num_ranks: int, folder: str, timeout: float) -> Processes:
    """All ranks on this host."""
    if name == "mpi":
        command, environment = mpirun(num_ranks, folder), {**os.environ, **ONE_THREAD}
        return Spawned(lambda streams: [subprocess.Popen(command, env=environment, **streams)])
    # Imported here: each needs what only its own processes need to have.
    if name == "communicator":
        from hemiola.integrations.bench.communicator_contestant import serve_communicator

        return Forked(RankProcesses(num_ranks, serve_communicator, (num_ranks, folder, timeout)))
    from hemiola.integrations.bench.torch_contestant import serve_torch

    return Forked(RankProcesses(num_ranks, serve_torch, (name, num_ranks, folder, timeout)))
