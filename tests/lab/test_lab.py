"""A real lab: hosts that reach each other at the rate of their cables, commands on every rank, and nothing left behind."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from hemiola.errors import LabError
from hemiola.lab.addresses import names
from hemiola.lab.execute import TIMED_OUT, execute
from hemiola.lab.lab import Lab, Starter, find, take_down
from hemiola.lab.processes import processes_in
from hemiola.lab.shape import Shape
from hemiola.topology.shapes import shape_text
from lab.labs import NEEDS_LAB, networks, new_name, processes_with

pytestmark = NEEDS_LAB

TALK = """
import os, socket, sys, time
rank, delay = int(os.environ["RANK"]), float(sys.argv[1])
here = (os.environ["MASTER_ADDR"], 30000)
if rank == 0:
    with socket.create_server(here) as server:
        peer, _ = server.accept()
        with peer:
            while peer.recv(1): peer.send(b"x")
elif rank == int(os.environ["WORLD_SIZE"]) - 1:
    for _ in range(200):
        try: peer = socket.create_connection(here); break
        except ConnectionRefusedError: time.sleep(0.02)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times = []
    for _ in range(9):
        begin = time.monotonic(); peer.send(b"x"); peer.recv(1); times.append(time.monotonic() - begin)
    assert min(times) >= delay, times
"""


HEMIOLA = str(Path(sys.executable).with_name("hemiola"))


def run_hemiola(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [HEMIOLA, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Starter(new_name(), Shape("2x4", shape_text("2x4"))) as lab:
        yield lab


def gone(name: str, held: set[int]) -> bool:
    """Whether nothing is left of a lab and its networks, a little later at the latest."""
    for _ in range(500):
        if name not in names() and not processes_with(name) and not held & networks():
            return True
        time.sleep(0.02)
    return False


def test_a_lab_is_found_by_its_name_and_ends_with_its_starter() -> None:
    name = new_name()
    with Starter(name, Shape("rails-2x4", shape_text("rails-2x4"))) as lab:
        assert name in names()
        assert find(name) == lab
        held = lab.networks()
        assert len(held) == 2
        assert held <= networks()
        with pytest.raises(LabError, match=f"a lab called {name} already"):
            Starter(name, lab.shape)
    assert gone(name, held)
    with pytest.raises(LabError, match=f"there is no lab called {name}"):
        find(name)


def test_every_rank_knows_its_place(lab: Lab, tmp_path: Path) -> None:
    script = 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $(hostname) $GLOO_SOCKET_IFNAME" > $0/$RANK'
    assert execute(lab, ["sh", "-c", script, str(tmp_path)], timeout=60) == 0
    told = [(tmp_path / str(rank)).read_text().split() for rank in range(8)]
    assert told == [[str(r), "8", str(r % 4), f"host{r // 4}", "eth0"] for r in range(8)]


def test_the_first_failure_is_the_answer_and_ends_all(lab: Lab) -> None:
    begin = time.monotonic()
    assert execute(lab, ["sh", "-c", '[ "$RANK" = 3 ] && exit 7; sleep 60'], timeout=50) == 7
    assert execute(lab, ["sleep", "60"], timeout=0.2) == TIMED_OUT
    assert execute(lab, ["true"], on_host=1, timeout=20) == 0
    assert time.monotonic() - begin < 40
    assert [pid for pid in processes_with(lab.name) if pid != lab.pid] == []
    with pytest.raises(LabError, match=r"hosts of .* are numbered 0 to 1, and 2 is none of them"):
        execute(lab, ["true"], on_host=2, timeout=20)


def test_a_command_is_told_that_its_lab_has_ended() -> None:
    name = new_name()
    with Starter(name, Shape("wan-2x1", shape_text("wan-2x1"))) as lab:
        ending = threading.Timer(1.0, take_down, [name])
        ending.start()
        with pytest.raises(LabError, match="the lab has ended while the command was running"):
            execute(lab, ["sleep", "60"], timeout=50)
        ending.join()


def test_who_drops_its_environment_ends_too(lab: Lab) -> None:
    """A process in a session of its own, without a mark, whose parent has ended."""
    script = "env -i setsid sleep 7890 & exit 3"
    assert execute(lab, ["sh", "-c", script], on_host=0, timeout=20) == 3
    assert processes_in(lab.networks()) == []


def test_files_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "selectors.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    with Starter(new_name(), Shape("wan-2x1", shape_text("wan-2x1"))) as lab:
        assert lab.system.num_ranks == 2


def test_a_collective_runs_in_it(lab: Lab) -> None:
    script = (
        "import numpy, hemiola; world = hemiola.Communicator(); data = numpy.full(10_000, float(world.rank)); "
        "world.all_reduce(data); assert (data == 28).all(); assert world.hosts == (0,) * 4 + (1,) * 4; world.close()"
    )
    assert execute(lab, [sys.executable, "-c", script], timeout=100) == 0


@pytest.mark.parametrize("delay", [None, 5e-3])
def test_hosts_are_as_far_from_each_other_as_asked(delay: float | None) -> None:
    with Starter(new_name(), Shape("wan-2x1", shape_text("wan-2x1"), delay)) as lab:
        assert execute(lab, [sys.executable, "-c", TALK, str(2 * (delay or 2e-3))], timeout=60) == 0


def test_the_command_line_from_up_to_down() -> None:
    name = new_name()
    done = run_hemiola("lab", "up", "2x4", "--name", name, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [host["ranks"] for host in told["hosts"]] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    listed = json.loads(run_hemiola("lab", "list", "--json").stdout)
    assert name in [each["name"] for each in listed["labs"]]
    done = run_hemiola("lab", "exec", "--name", name, "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert sorted(done.stdout.splitlines()) == [f"{rank} of 8" for rank in range(8)]
    assert run_hemiola("lab", "exec", "--name", name, "--", "sh", "-c", "exit 9").returncode == 9
    held = find(name).networks()
    done = run_hemiola("lab", "down", name)
    assert done.returncode == 0
    assert gone(name, held)
    done = run_hemiola("lab", "down", name)
    assert done.returncode == 2
    assert done.stderr.startswith(f"hemiola: there is no lab called {name}")


def _hear_interrupts() -> None:
    """A shell lets what it starts in the background ignore them, and so do all its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def killed_at_random(seed: int) -> None:
    """Up, exec, and a signal to whoever is there at some moment: the lab may end or not, but nothing stays that should not."""
    rng, name = random.Random(seed), new_name()
    number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    victim = rng.choice(["up", "exec", "keeper"])
    up = subprocess.Popen(
        [HEMIOLA, "lab", "up", "2x4", "--name", name], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, preexec_fn=_hear_interrupts,
    )  # fmt: skip
    if victim == "up":
        time.sleep(rng.uniform(0, 1.5))
        up.send_signal(number)
    up.wait(60)
    held = find(name).networks() if up.returncode == 0 else set()
    if victim != "up" and up.returncode == 0:
        child = "import subprocess, time; subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)"
        command = ["lab", "exec", "--name", name, "--", sys.executable, "-c", child]
        running = subprocess.Popen(
            [HEMIOLA, *command], stderr=subprocess.DEVNULL, preexec_fn=_hear_interrupts
        )
        time.sleep(rng.uniform(0, 1.5))
        os.kill(running.pid if victim == "exec" else find(name).pid, number)
        running.wait(60)
        assert running.returncode != 0
        if victim == "exec":
            keeper = find(name).pid
            for _ in range(500):
                if set(processes_with(name)) <= {keeper}:
                    break
                time.sleep(0.02)
            assert set(processes_with(name)) <= {keeper}
    if name in names():
        take_down(name)
    assert gone(name, held), f"{victim} {number}: {processes_with(name)}, {held & networks()}"


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_left_after_a_signal_at_any_moment(seed: int) -> None:
    killed_at_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 60))
def test_nothing_is_left_after_a_signal_at_any_moment_again(seed: int) -> None:
    killed_at_random(seed)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="MPI is not installed: make mpi")
def test_mpirun_starts_its_ranks_on_all_hosts(lab: Lab) -> None:
    done = run_hemiola("lab", "exec", "--name", lab.name, "--on", "0", "--", "mpirun", "-np", "8", "hostname")
    assert sorted(done.stdout.split()) == ["host0"] * 4 + ["host1"] * 4, done.stderr


GLOO = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
data = torch.full((1000,), float(dist.get_rank()))
dist.all_reduce(data)
assert (data == 28).all()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_script_for_torchrun_runs_unchanged(lab: Lab) -> None:
    assert execute(lab, [sys.executable, "-c", GLOO], timeout=120) == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_part_of_the_benchmark_runs(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "lab_collectives.py"
    written, page = tmp_path / "lab.json", tmp_path / "results.md"
    command = [sys.executable, str(script), "--quick", "--json", str(written), "--page", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    tables = json.loads(written.read_text())["tables"]
    assert {table["claim"] for table in tables} >= {
        "wire",
        "allreduce",
        "alltoall",
        "alltonext",
        "passes",
        "slots",
    }
    assert all(seconds > 0 for table in tables for row in table["rows"] for seconds in row["rounds"])
    assert page.read_text().startswith("# Measured in the lab")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_some_reduction_programs_are_carried_out_and_ranked(tmp_path: Path) -> None:
    script, out = Path(__file__).parents[2] / "benchmarks" / "p2_lab.py", tmp_path / "p2.jsonl"
    command = [
        sys.executable,
        str(script),
        "--out",
        str(out),
        "--shapes",
        "2x4,4x2",
        "--backends",
        "hemiola",
        "--quick",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == len({(row["case"], row["program"]) for row in rows}) == 64
    assert "- 2 sets of groups: top-1" in done.stdout
    again = subprocess.run([*command, "--report"], capture_output=True, text=True, timeout=200, check=False)
    assert "- 2 sets of groups: top-1" in again.stdout
