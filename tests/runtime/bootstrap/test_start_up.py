"""Start-up for real: ranks that know their place from the environment alone, as launchers set it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from runtime import job_steps
from runtime.jobs import Job, clean_environment, command_of, free_port

SECONDS = 90

Place = Callable[[int, int], dict[str, str]]
"""The variables that tell a rank its place, by rank and number of ranks."""


def by_torchrun(rank: int, size: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}


def by_mpirun(rank: int, size: int) -> dict[str, str]:
    """Open MPI says nothing of a master; that all ranks are local says it."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(size),
    }


def by_srun(rank: int, size: int) -> dict[str, str]:
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(size),
        "SLURM_LOCALID": str(rank),
        "SLURM_STEP_NODELIST": "localhost",
    }


def expected(size: int) -> list[dict[str, Any]]:
    return [{"rank": k, "size": size, "hosts": [0] * size, "sum": [2.0**size - 1]} for k in range(size)]


@pytest.mark.parametrize("place", [by_torchrun, by_mpirun, by_srun])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("secret", [None, "a secret of more than sixteen characters"])
def test_the_environment_is_enough(place: Place, size: int, secret: str | None) -> None:
    port = {"HEMIOLA_PORT": str(free_port())}
    with Job(secret=secret) as job:
        for rank in range(size):
            job.start(job_steps.add_up, env=place(rank, size) | port)
        assert job.results() == expected(size)


@pytest.mark.parametrize("late", [(1.5, 0.0, 0.0), (0.0, 0.0, 1.5)], ids=["the first", "the last"])
def test_a_rank_may_start_late(late: tuple[float, ...]) -> None:
    port = {"HEMIOLA_PORT": str(free_port())}
    with Job() as job:
        for rank, seconds in enumerate(late):
            env = by_torchrun(rank, len(late)) | port
            job.start(job_steps.wait_then_add_up, str(seconds), env=env)
        assert job.results() == expected(len(late))


def test_who_has_another_secret_hears_it_and_disturbs_nobody() -> None:
    port = {"HEMIOLA_PORT": str(free_port())}
    with Job() as job:
        first = job.start(job_steps.add_up, env=by_torchrun(0, 2) | port)
        wrong = {"HEMIOLA_JOB_SECRET": "another secret of some length"}
        stranger = job.start(job_steps.knock, "3", env=by_torchrun(1, 2) | port | wrong)
        said = job.end_of(stranger)
        assert said.exit_code == 0, said.complained
        assert len(said.said) == 3
        for sentence in said.said:
            assert "their job secrets differ; start every rank with the same HEMIOLA_JOB_SECRET" in sentence
        assert first.poll() is None, "rank 0 gave up because of a stranger"
        second = job.start(job_steps.add_up, env=by_torchrun(1, 2) | port)
        assert [job.end_of(process).said for process in (first, second)] == expected(2)


def test_a_store_that_others_can_reach_needs_a_secret() -> None:
    env = by_torchrun(0, 2) | {"MASTER_ADDR": "192.0.2.1", "HEMIOLA_PORT": "29999"}
    with Job(secret=None) as job:
        job.start(job_steps.knock, env=env)
        ((sentence,),) = job.results()
    assert sentence.startswith("the store at 192.0.2.1 can be reached by other hosts: set HEMIOLA_JOB_SECRET")


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({}, "this process does not know its rank: start it with torchrun, mpirun or srun"),
        ({"RANK": "0"}, "RANK is set, but WORLD_SIZE is not"),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"},
            "the 2 ranks need a place to meet: set HEMIOLA_PORT",
        ),
    ],
)
def test_what_is_missing_is_named(env: Mapping[str, str], sentence: str) -> None:
    with Job() as job:
        job.start(job_steps.knock, env=env)
        ((said,),) = job.results()
    assert said.startswith(sentence)


def test_under_mpirun() -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed: the test under mpirun was left out")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = ["mpirun", "--oversubscribe", *root, "-np", "2", *command_of(job_steps.add_up)]
    assert launch(command, HEMIOLA_PORT=str(free_port())) == expected(2)


def test_under_torchrun_in_its_store() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    where = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    module, *arguments = command_of(job_steps.add_up_through_torch)[2:]
    found = launch([*torchrun, *where, "-m", module, *arguments])
    assert found == [{"rank": rank, "size": 2, "sum": [3.0]} for rank in range(2)]


def launch(command: Iterable[str], **env: str) -> list[Any]:
    """What the ranks of a launcher said, in the order of ranks."""
    ended = subprocess.run(
        list(command), env=clean_environment() | env, capture_output=True, text=True, timeout=SECONDS
    )
    assert ended.returncode == 0, ended.stderr
    said = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    return sorted(said, key=lambda one: int(one["rank"]))
