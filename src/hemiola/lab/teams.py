"""Teams: the contestants of a measurement, with their ranks on the hosts of a lab."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from hemiola.integrations.bench.start import ONE_THREAD, Processes, Spawned, mpirun
from hemiola.integrations.bench.team import Team
from hemiola.lab.lab import SAFE_MODULE, Lab

Spawn = Callable[[dict[str, Any]], Sequence[subprocess.Popen[bytes]]]


@contextmanager
def team_in(
    lab: Lab,
    name: str,
    *,
    timeout: float,
    label: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Team]:
    """Start ``communicator``, ``gloo`` or ``mpi`` on all ranks of a lab, with more variables where given."""
    with ExitStack() as stack:
        mark = secrets.token_hex(8)
        stack.enter_context(lab.watch(mark))

        def start(_: str, num_ranks: int, folder: str, seconds: float) -> Processes:
            more = {**ONE_THREAD, **(variables or {})}
            spawn = _mpi if name == "mpi" else _ranks
            return Spawned(spawn(lab, name, num_ranks, folder, seconds, more, mark))

        team = stack.enter_context(Team(label or name, lab.system.num_ranks, timeout, start))
        team.meet()
        yield team


def _ranks(
    lab: Lab, name: str, num_ranks: int, folder: str, timeout: float, more: Mapping[str, str], mark: str
) -> Spawn:
    command = [sys.executable, *SAFE_MODULE, "hemiola.lab.contest", name, folder, str(timeout)]
    # Teams do not know of each other: each has a secret and a port of its own, below those that the kernel hands out.
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
