"""Several hosts, for real: network namespaces with interfaces of their own, and TCP between them.

Where namespaces cannot be made these tests are left out, and the reason says so.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from runtime import job_steps
from runtime.jobs import Job, Step
from runtime.namespaces import Host, NamespaceError, hosts, obstacle

PORT = "29411"
MASTER_PORT = "29400"
EIGHT_MIB = 2 << 20
"""In elements of four bytes."""


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    why = obstacle()
    if why is not None:
        pytest.skip(f"the tests on several hosts were left out: {why}")


@pytest.fixture
def two_hosts() -> Iterator[list[Host]]:
    with hosts(2, num_interfaces=2) as made:
        yield made


def start(
    job: Job,
    machines: Sequence[Host],
    ranks_per_host: Sequence[int],
    step: Step,
    *arguments: str,
    interfaces: str = "eth0",
    **more: str,
) -> None:
    """A job with so many neighbouring ranks on each host, told by the environment alone."""
    size = sum(ranks_per_host)
    places = [(host, k) for host, count in zip(machines, ranks_per_host, strict=True) for k in range(count)]
    for rank, (host, local_rank) in enumerate(places):
        env = {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(local_rank),
            "MASTER_ADDR": machines[0].address(),
            "HEMIOLA_PORT": PORT,
            "HEMIOLA_IFNAME": interfaces,
        }
        job.start(step, *arguments, env=env | more, inside=host.inside)


@pytest.mark.parametrize("ranks_per_host", [(2, 2), (3, 1), (1, 2, 1)])
def test_every_collective_is_exact(ranks_per_host: tuple[int, ...]) -> None:
    lengths = ("0", "1", "7", "1001", "65537", str(EIGHT_MIB))
    with hosts(len(ranks_per_host)) as machines, Job() as job:
        start(job, machines, ranks_per_host, job_steps.check_collectives, *lengths)
        found = job.results()
    places = [k for k, count in enumerate(ranks_per_host) for _ in range(count)]
    assert found == [places] * len(places)


def test_a_link_of_a_few_bytes_only_takes_longer(two_hosts: list[Host]) -> None:
    for host in two_hosts:
        host.set_option("net.ipv4.tcp_wmem", "4096 4096 4096")
        host.set_option("net.ipv4.tcp_rmem", "4096 4096 4096")
    with Job() as job:
        start(job, two_hosts, (2, 2), job_steps.check_collectives, "7", "70001")
        assert job.results() == [[0, 0, 1, 1]] * 4


def test_a_slow_network_only_takes_longer(two_hosts: list[Host]) -> None:
    try:
        two_hosts[1].slow_down("100mbit")
    except NamespaceError as error:
        pytest.skip(f"the test with a slow network was left out: {error}")
    with Job() as job:
        start(job, two_hosts, (1, 2), job_steps.check_collectives, "7", "70001")
        assert job.results() == [[0, 1, 1]] * 3


@pytest.mark.parametrize("victim", [0, 3])
def test_a_rank_that_is_killed_on_the_other_host_is_named(
    victim: int, two_hosts: list[Host], tmp_path: Path
) -> None:
    with Job() as job:
        start(job, two_hosts, (2, 2), job_steps.lose_somebody, str(tmp_path))
        job.wait_until(begun(tmp_path, 4))
        os.kill(process_of(victim, tmp_path), signal.SIGKILL)
        ended = job.ends()
    assert ended[victim].exit_code == -signal.SIGKILL
    for rank, end in enumerate(ended):
        if rank != victim:
            assert end.exit_code == 0, end.complained
            assert end.said["lost"] == victim, end.said
            assert f"rank {victim} " in end.said["message"]


def test_a_host_that_vanishes_is_noticed_at_the_timeout(two_hosts: list[Host], tmp_path: Path) -> None:
    with Job() as job:
        start(job, two_hosts, (2, 1), job_steps.lose_somebody, str(tmp_path), HEMIOLA_TIMEOUT="5")
        job.wait_until(begun(tmp_path, 3))
        two_hosts[1].unplug()
        said = [job.end_of(process).said for process in job.processes]
    assert [one["lost"] for one in said[:2]] == [2, 2], said
    assert said[2]["lost"] in (0, 1), said


def test_ranks_use_their_own_interfaces_and_listen_nowhere_else(two_hosts: list[Host]) -> None:
    with Job() as job:
        start(job, two_hosts, (2, 2), job_steps.report_network, interfaces="eth0,eth1")
        found = job.results()
    for rank, said in enumerate(found):
        assert set(said["listening"]) == {two_hosts[rank // 2].address(rank % 2)}, said
        # A hierarchical sum of 4 MiB sends at least half of it, once, from each rank of a host.
        assert min(said["sent"][name] for name in ("eth0", "eth1")) > 8 * (1 << 20), said
        assert said["sent"]["lo"] < 1 << 20, said


@pytest.mark.parametrize("rp_filter", ["0", "1"], ids=["any way back", "the same way back"])
def test_ranks_on_different_interfaces_reach_each_other(two_hosts: list[Host], rp_filter: str) -> None:
    for host in two_hosts:
        for interface in ("all", *host.interfaces):
            host.set_option(f"net.ipv4.conf.{interface}.rp_filter", rp_filter)
    with Job() as job:
        start(job, two_hosts, (2, 2), job_steps.check_collectives, "7", "70001", interfaces="eth0,eth1")
        assert job.results() == [[0, 0, 1, 1]] * 4


def test_the_backend_of_torch(two_hosts: list[Host]) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with Job() as job:
        start(job, two_hosts, (2, 2), job_steps.train_with_torch, MASTER_PORT=MASTER_PORT)
        found = job.results()
    assert [said["rank"] for said in found] == [0, 1, 2, 3]
    assert all(one["gradients"] == other["gradients"] for one, other in pairwise(found))


def begun(folder: Path, number: int) -> Callable[[], bool]:
    """Whether so many ranks have left their files."""
    return lambda: len(list(folder.iterdir())) == number


def process_of(rank: int, folder: Path) -> int:
    (path,) = folder.glob(f"{rank}.*")
    return int(path.suffix[1:])
