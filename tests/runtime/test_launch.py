"""Ranks as threads and as processes: results, failures, and nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hemiola.errors import PeerLostError, RunError
from hemiola.runtime.launch import RankKind, RankProcesses, run_ranks
from runtime import rank_functions as does

KINDS: tuple[RankKind, ...] = ("threads", "processes")


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def processes_in(folder: Path) -> list[int]:
    return [int(path.name.partition(".")[2]) for path in folder.iterdir()]


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_in_the_order_of_ranks(kind: RankKind) -> None:
    found = run_ranks(4, does.say_rank, 10, kind=kind)
    assert found == [(0, 0), (1, 0), (2, 10), (3, 20)]


def test_threads_share_a_process_and_processes_do_not() -> None:
    assert set(run_ranks(3, does.say_process)) == {os.getpid()}
    others = run_ranks(3, does.say_process, kind="processes")
    assert len({os.getpid(), *others}) == 4


def test_large_results_come_back() -> None:
    found = run_ranks(3, does.give_back, 5_000_000, kind="processes")
    assert [(one[0], len(one)) for one in found] == [(0, 5_000_000), (1, 5_000_000), (2, 5_000_000)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guilty", [0, 2])
def test_the_rank_that_failed_on_its_own_is_named(kind: RankKind, guilty: int) -> None:
    with pytest.raises(RunError, match=f"^rank {guilty} failed: ValueError: seven is not even$") as caught:
        run_ranks(3, does.fail, guilty, "raise", kind=kind)
    assert isinstance(caught.value.__cause__, ValueError)
    assert any("in fail" in note for note in caught.value.__cause__.__notes__)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("unfriendly", "rank 1 failed: UnfriendlyError: 1 and 2"),
        ("exit", "rank 1 ended with exit code 3 before it had a result"),
        ("kill", "rank 1 was killed by SIGKILL"),
    ],
)
def test_a_process_that_cannot_say_what_happened_is_named(what: str, said: str) -> None:
    with pytest.raises(RunError, match=f"^{said}$"):
        run_ranks(3, does.fail, 1, what, kind="processes")


def test_a_witness_is_named_when_nobody_else_failed() -> None:
    with pytest.raises(RunError, match=r"^rank [01] failed: rank 7 is lost$") as caught:
        run_ranks(2, does.fail, 7, "raise")
    assert isinstance(caught.value.__cause__, PeerLostError)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_ends_the_others(kind: RankKind, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^rank 1 failed: ValueError"):
        run_ranks(3, does.hang_except, str(tmp_path), 1, kind=kind, grace=0.5)
    if kind == "processes":
        wait_until(lambda: not any(map(is_alive, processes_in(tmp_path))))


@pytest.mark.parametrize("kind", KINDS)
def test_time_that_is_over_is_an_error(kind: RankKind, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^ranks 0, 1 did not end within 1\.5 s"):
        run_ranks(2, does.hang_except, str(tmp_path), kind=kind, timeout=1.5)
    if kind == "processes":
        wait_until(lambda: not any(map(is_alive, processes_in(tmp_path))))


def test_leaving_early_ends_the_processes(tmp_path: Path) -> None:
    with RankProcesses(2, does.hang_except, [str(tmp_path)]):
        wait_until(lambda: len(processes_in(tmp_path)) == 2)
    assert not any(map(is_alive, processes_in(tmp_path)))


@pytest.mark.parametrize("victim", ["caller", "fork_server"])
def test_nobody_outlives_who_started_them(victim: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = Path(does.__file__)
    caller = subprocess.Popen([sys.executable, script, tmp_path], env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(processes_in(tmp_path)) == 3)
        ranks = processes_in(tmp_path)
        fork_server = int(Path(f"/proc/{ranks[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(caller.pid if victim == "caller" else fork_server, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, [*ranks, fork_server])))
        assert caller.wait(30) == (-signal.SIGKILL if victim == "caller" else 1)
    finally:
        caller.kill()
        caller.wait()


def test_what_processes_cannot_find_is_an_error_at_once() -> None:
    with pytest.raises(RunError, match=r"use a function at the top of a module"):
        run_ranks(2, lambda rank, store: rank, kind="processes")


def test_a_result_that_cannot_be_pickled_is_an_error() -> None:
    with pytest.raises(RunError, match=r"^rank 0 gave a result that cannot be pickled"):
        run_ranks(1, does.give_back_a_function, kind="processes")


def test_no_ranks_give_no_results() -> None:
    assert run_ranks(0, does.say_process) == []
