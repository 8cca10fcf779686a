"""Backends of a measurement, with their ranks on the hosts of a lab."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from hemiola.integrations.bench.backend_processes import BackendProcesses
from hemiola.integrations.bench.launch_backend import ONE_THREAD, LaunchedRanks, SpawnedRanks, mpirun
from hemiola.lab.lab import SAFE_MODULE, Lab

Spawn = Callable[[dict[str, Any]], Sequence[subprocess.Popen[bytes]]]


@contextmanager
def backend_in(
    lab: Lab,
    name: str,
    *,
    timeout: float,
    label: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[BackendProcesses]:
    """Start ``communicator``, ``gloo`` or ``mpi`` on all ranks of a lab; ``variables`` are added to their environment."""
    with ExitStack() as stack:
        mark = secrets.token_hex(8)
        stack.enter_context(lab.watch(mark))

        def start(_: str, num_ranks: int, folder: str, seconds: float) -> LaunchedRanks:
            more = {**ONE_THREAD, **(variables or {})}
            spawn = _mpi if name == "mpi" else _ranks
            return SpawnedRanks(spawn(lab, name, num_ranks, folder, seconds, more, mark))

        backend = stack.enter_context(BackendProcesses(label or name, lab.system.num_ranks, timeout, start))
        backend.wait_for_ranks()
        yield backend


def _ranks(
    lab: Lab, name: str, num_ranks: int, folder: str, timeout: float, more: Mapping[str, str], mark: str
) -> Spawn:
    command = [sys.executable, *SAFE_MODULE, "hemiola.lab.run_backend", name, folder, str(timeout)]
    # Backends of one lab must not connect to each other: each has a secret and a port of its own, below the kernel's
    # ephemeral ports.
    own = {
        "HEMIOLA_JOB_SECRET": secrets.token_hex(32),
        "HEMIOLA_PORT": str(20_000 + secrets.randbelow(9_000)),
    }

    def spawn(streams: dict[str, Any]) -> Sequence[subprocess.Popen[bytes]]:
        return [
            lab.start(
                host,
                command,
                {**lab.environment(rank), **own, **more},
                mark,
                **streams,
            )
            for rank, host in enumerate(lab.system.host_of_rank)
        ]

    return spawn


def _mpi(
    lab: Lab, name: str, num_ranks: int, folder: str, timeout: float, more: Mapping[str, str], mark: str
) -> Spawn:
    hostfile = os.path.join(folder, "hosts")
    with open(hostfile, "w", encoding="utf-8") as file:
        file.write(lab.hostfile())
    environment = {**lab.mpi_environment(hostfile), **more}
    return lambda streams: [lab.start(0, mpirun(num_ranks, folder), environment, mark, **streams)]
