"""Team: all ranks of one contestant, alive from start to end, working only when it is their turn."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from importlib.util import find_spec
from typing import IO, Any

from hemiola.errors import RunError
from hemiola.integrations.bench.contestant import MPI_LACKS, Task
from hemiola.runtime.launch import RankProcesses

TEAMS = ("hemiola", "gloo", "communicator", "mpi")
"""Hemiola and Gloo through torch.distributed, Hemiola's Communicator and MPI on NumPy arrays."""
RIVALS = {"gloo": "hemiola", "mpi": "communicator"}
"""Who is compared with whom: the same kind of arrays, called the same way."""
START_SECONDS = 120.0
"""How long the processes of a team may take to start."""
POLL_SECONDS = 0.2


class Team:
    """The processes of one contestant, started at once, and a connection to each, made by ``meet``."""

    def __init__(self, name: str, num_ranks: int, timeout: float) -> None:
        self.name = name
        self._num_ranks = num_ranks
        self._timeout = timeout
        self._lines: list[IO[str]] = []
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hemiola-bench-"))
            self._listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            self._listener.bind(os.path.join(folder, "driver"))
            self._listener.listen(num_ranks)
            self._processes = _start(name, num_ranks, folder, timeout)
            stack.callback(self._processes.close)
            self._stack = stack.pop_all()

    def meet(self) -> None:
        """Wait until every rank has started; raises RunError when one does not."""
        self._listener.settimeout(POLL_SECONDS)
        deadline = time.monotonic() + START_SECONDS
        met: dict[int, IO[str]] = {}
        while len(met) < self._num_ranks:
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                if self._processes.ended or time.monotonic() > deadline:
                    raise self._lost() from None
                continue
            with sock:
                sock.settimeout(self._timeout)
                lines = self._stack.enter_context(sock.makefile("rw", encoding="utf-8"))
            met[int(self._hear(lines.readline())["rank"])] = lines
        self._lines = [met[rank] for rank in range(self._num_ranks)]

    def prepare(self, task: Task) -> None:
        """Make buffers for a task, run it once and check its result; raises RunError when it is wrong."""
        for answer in self._ask({"prepare": asdict(task)}):
            if answer["wrong"] is not None:
                raise RunError(f"{self.name} computed a wrong {task.kind}: {answer['wrong']}")

    def time_block(self, times: int) -> float:
        """Seconds per call of the slowest rank."""
        return max(float(answer["seconds"]) for answer in self._ask({"block": times}))

    def release(self) -> None:
        """Give the memory of the buffers back."""
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
        return RunError(f"{self.name} could not go on: {self._processes.last_words()}")

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def obstacle(name: str, element: str) -> str | None:
    """Why a team cannot take part here, and the way out, in one sentence; None when it can."""
    if name in ("gloo", "hemiola") and find_spec("torch") is None:
        return "Gloo is measured through PyTorch, which is not installed; install it with: pip install torch"
    if name == "mpi" and (find_spec("mpi4py") is None or shutil.which("mpirun") is None):
        return "MPI is not installed; install Open MPI and mpi4py with: make mpi"
    if name == "mpi" and element in MPI_LACKS:
        return f"MPI has no {element}; use another --dtype, or leave mpi out of --against"
    return None


class _Forked:
    """Processes of our own launcher."""

    def __init__(self, ranks: RankProcesses[None]) -> None:
        self._ranks = ranks

    @property
    def ended(self) -> bool:
        """Whether a rank has ended, which none should before the driver does."""
        return self._ranks.has_news

    def last_words(self) -> str:
        """Why they ended."""
        try:
            self._ranks.wait(10.0)
        except RunError as error:
            return str(error)
        return "its ranks left without a word"

    def close(self) -> None:
        """End them."""
        self._ranks.close()


class _Mpirun:
    """Processes under mpirun; more ranks than cores are allowed, and so is root, who runs containers."""

    def __init__(self, num_ranks: int, folder: str) -> None:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        module = "hemiola.integrations.bench.mpi_contestant"
        command = [
            "mpirun",
            "--oversubscribe",
            *root,
            "-np",
            str(num_ranks),
            sys.executable,
            "-m",
            module,
            folder,
        ]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the team is)
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._mpirun = subprocess.Popen(
            command, env={**os.environ, **single}, stdin=subprocess.DEVNULL, stdout=self._errors, stderr=self._errors
        )  # fmt: skip

    @property
    def ended(self) -> bool:
        """Whether mpirun has ended."""
        return self._mpirun.poll() is not None

    def last_words(self) -> str:
        """The end of what it printed."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return " ".join(line.strip() for line in lines if line.strip(" -"))[-600:] or "mpirun said nothing"

    def close(self) -> None:
        """Ranks end with their connections, and mpirun with its ranks; it is asked only when it does not."""
        try:
            self._mpirun.wait(10.0)
        except subprocess.TimeoutExpired:
            self._mpirun.terminate()
            self._mpirun.wait()
        self._errors.close()


def _start(name: str, num_ranks: int, folder: str, timeout: float) -> _Forked | _Mpirun:
    if name == "mpi":
        return _Mpirun(num_ranks, folder)
    # Imported here: each needs what only its own processes need to have.
    if name == "communicator":
        from hemiola.integrations.bench.communicator_contestant import serve_communicator

        return _Forked(RankProcesses(num_ranks, serve_communicator, (num_ranks, folder, timeout)))
    from hemiola.integrations.bench.torch_contestant import serve_torch

    return _Forked(RankProcesses(num_ranks, serve_torch, (name, num_ranks, folder, timeout)))
