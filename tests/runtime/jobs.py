"""Jobs: ranks as processes of their own, told their place through the environment alone, as launchers do.

A rank runs one function of a module of the tests: ``python -m runtime.jobs MODULE FUNCTION [ARGUMENT ...]``. What
it returns comes back as JSON. Leaving the ``with`` block of a job ends every process that is still there.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

SECONDS = 90.0
"""For a whole job; one that needs them all has failed."""
SECRET = "the ranks of this test, and nobody else"

Step = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """How one rank ended."""

    exit_code: int
    said: Any
    """What its function returned; None where it did not live to say it."""
    complained: str
    """What it wrote to stderr."""


class Job:
    """The processes of one job."""

    def __init__(self, *, secret: str | None = SECRET) -> None:
        self._environment = clean_environment() | ({} if secret is None else {"HEMIOLA_JOB_SECRET": secret})
        self._deadline = time.monotonic() + SECONDS
        self.processes: list[subprocess.Popen[str]] = []

    def start(
        self, step: Step, *arguments: str, env: Mapping[str, str], inside: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """One more rank; ``inside`` is a command that runs the command after it somewhere else."""
        return self.start_command([*inside, *command_of(step, *arguments)], env)

    def start_command(self, command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
        """One more process, whatever it runs."""
        process = subprocess.Popen(
            command,
            env={**self._environment, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that the ranks do; a rank that ends before is an assertion with what it wrote."""
        while not holds():
            for rank, process in enumerate(self.processes):
                assert process.poll() is None, f"rank {rank} ended too early: {self.end_of(process)}"
            assert time.monotonic() < self._deadline, "waited in vain"
            time.sleep(0.02)

    def ends(self) -> list[Ended]:
        """How all ranks ended, in the order in which they were started."""
        return [self.end_of(process) for process in self.processes]

    def end_of(self, process: subprocess.Popen[str]) -> Ended:
        """How one rank ended."""
        out, err = process.communicate(timeout=max(0.0, self._deadline - time.monotonic()))
        return Ended(process.returncode, json.loads(out) if process.returncode == 0 else None, err)

    def results(self) -> list[Any]:
        """What all ranks returned; a rank that failed is an assertion with what it wrote."""
        ended = self.ends()
        wrong = [f"rank {k}: {e.exit_code}\n{e.complained}" for k, e in enumerate(ended) if e.exit_code]
        assert not wrong, "\n".join(wrong)
        return [e.said for e in ended]

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            with process:
                process.wait()


def command_of(step: Step, *arguments: str) -> list[str]:
    """The command of a rank that runs a function."""
    return [sys.executable, "-m", "runtime.jobs", step.__module__, step.__name__, *arguments]


def clean_environment() -> dict[str, str]:
    """This process's, without what launchers and people set for a job."""
    jobs = (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_",
        "MASTER_",
        "HEMIOLA_",
        "OMPI_",
        "PMIX_",
        "SLURM_",
        "TORCHELASTIC_",
    )
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(jobs)}
    return inherited | {"PYTHONPATH": os.pathsep.join(sys.path), "HEMIOLA_TIMEOUT": str(SECONDS)}


def free_port(address: str = "127.0.0.1") -> int:
    """A port that nobody holds at this moment."""
    with socket.create_server((address, 0)) as listening:
        return int(listening.getsockname()[1])


def main() -> None:
    """The life of a rank."""
    module, function, *arguments = sys.argv[1:]
    said = getattr(importlib.import_module(module), function)(*arguments)
    sys.stdout.write(json.dumps(said) + "\n")  # in one piece: ranks may share a pipe


if __name__ == "__main__":
    main()
