"""hemiola bench: rows for every size, backends that take turns, and what is missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from cli.invoke import answer, refusal, succeed
from hemiola.cli import bench
from hemiola.collectives import CollectiveKind
from hemiola.integrations.bench import backend_processes, bound
from hemiola.integrations.bench.backend import IN_PLACE, Task
from hemiola.integrations.bench.bound import FORMULAS, WORK, Rates, bound_seconds
from hemiola.integrations.bench.turns import Times, take_turns

RATES = Rates(2, 10e9, 5e9)
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
NEEDS_MPI = pytest.mark.skipif(
    find_spec("mpi4py") is None or shutil.which("mpirun") is None, reason="MPI is not installed: make mpi"
)


@pytest.fixture
def known_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "measure_rates", lambda element: RATES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("hemiola", marks=NEEDS_TORCH),
        pytest.param("gloo", marks=NEEDS_TORCH),
        "communicator",
        pytest.param("mpi", marks=NEEDS_MPI),
    ],
)
def test_every_backend_does_every_collective_right(name: str) -> None:
    with backend_processes.BackendProcesses(name, 2, 60.0) as one:
        one.wait_for_ranks()
        for collective in IN_PLACE:
            one.prepare(Task(collective, 2, 4096, "float32"))
            assert one.time_block(2) > 0
            one.release()


@pytest.mark.usefixtures("known_rates")
def test_the_communicator_alone() -> None:
    collective = CollectiveKind.REDUCESCATTER
    found = answer(
        "bench", collective, "--ranks", "2,3", "--sizes", "96,6KiB", "--against", "", "--repeat", 2
    )
    assert found["collective"] == collective
    assert [(row["ranks"], row["bytes"]) for row in found["rows"]] == [(2, 96), (2, 6144), (3, 96), (3, 6144)]
    for row in found["rows"]:
        assert row["hemiola_seconds"] == row["communicator_seconds"] > 0
        low, high = row["spread_seconds"]["hemiola"]
        assert low <= row["hemiola_seconds"] <= high
        assert row["gloo_seconds"] is row["mpi_seconds"] is row["spread_seconds"]["gloo"] is None
        task = Task(collective, row["ranks"], row["bytes"], "float32")
        assert row["bound_seconds"] == bound_seconds(task, RATES)


@pytest.mark.usefixtures("known_rates")
@NEEDS_TORCH
def test_beside_gloo() -> None:
    words = ("bench", "allreduce", "--sizes", "4KiB", "--against", "gloo", "--repeat", 1)
    (row,) = answer(*words)["rows"]
    assert row["hemiola_seconds"] > 0 < row["gloo_seconds"]
    assert row["communicator_seconds"] is row["mpi_seconds"] is None


@pytest.mark.usefixtures("known_rates")
@NEEDS_MPI
def test_beside_mpi() -> None:
    text = succeed("bench", "alltoall", "--sizes", "4KiB,8KiB", "--against", "mpi", "--repeat", 1)
    header, first, second, *rest = text.splitlines()
    assert header.split() == ["ranks", "bytes", "Communicator", "mpi", "x", "mpi", "memory", "estimate"]
    assert (first.split()[:2], second.split()[:2]) == (["2", "4KiB"], ["2", "8KiB"])
    assert FORMULAS[CollectiveKind.ALLTOALL] in " ".join(rest)


@pytest.mark.usefixtures("known_rates")
def test_the_memory_estimate_is_not_called_a_bound() -> None:
    text = succeed("bench", "alltoall", "--sizes", "4KiB", "--against", "", "--repeat", 1)
    header, _, *explanation = text.splitlines()
    assert header.split() == ["ranks", "bytes", "Communicator", "memory", "estimate"]
    assert f"Memory estimate: {FORMULAS[CollectiveKind.ALLTOALL]}" in " ".join(explanation)
    assert text.rstrip().endswith("Data in caches can beat it.")
    assert not re.search(r"\bbound", text, re.IGNORECASE)


def test_the_bound_is_what_must_be_added_and_copied() -> None:
    assert (
        bound_seconds(Task(CollectiveKind.ALLREDUCE, 8, 1000, "float32"), RATES)
        == 7 * 1000 / 10e9 + 7 * 1000 / 5e9
    )
    assert bound_seconds(Task(CollectiveKind.ALLGATHER, 4, 4000, "float32"), RATES) == 16 * 1000 / 5e9
    assert set(WORK) == set(FORMULAS) == set(IN_PLACE)


def test_the_machine_is_measured_with_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def cores_that_did(
        number: int, _: object, *rest: object, kind: str
    ) -> list[tuple[list[float], list[float]]]:
        asked.append((number, kind))
        return [([1.0, 5.0], [2.0, 3.0]), ([6.0, 4.0], [2.0, 2.0])][:number]

    monkeypatch.setattr(bound, "run_ranks", cores_that_did)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert bound.measure_rates("float32") == Rates(2, 9.0, 5.0)
    assert asked == [(2, "processes")]


class Player:
    """A backend that writes down when it is its turn."""

    def __init__(self, name: str, score: list[str], seconds: Iterator[float]) -> None:
        self.name = name
        self._score, self._seconds = score, seconds

    def prepare(self, task: Task) -> None:
        self._score.append(f"{self.name} prepares")

    def time_block(self, times: int) -> float:
        self._score.append(f"{self.name} {times}")
        return next(self._seconds)

    def release(self) -> None:
        self._score.append(f"{self.name} rests")


def test_teams_take_turns_in_a_rotating_order() -> None:
    score: list[str] = []
    quick = Player("quick", score, iter([9.0, 0.01, 0.03, 0.01, 0.02]))
    slow = Player("slow", score, iter([9.0, 9.0, 9.0, 8.0, 7.0]))
    times = take_turns([quick, slow], Task(CollectiveKind.ALLREDUCE, 2, 64, "float32"), 3)  # type: ignore[list-item]
    assert times == {"quick": Times((0.03, 0.01, 0.02)), "slow": Times((9.0, 8.0, 7.0))}
    assert (times["quick"].median, times["quick"].spread) == (0.02, (0.01, 0.03))
    first_block = score.index("slow 3") + 1
    blocks = ["quick 5", "slow 1", "slow 1", "quick 5", "quick 5", "slow 1"]
    assert score[first_block:] == [*blocks, "quick rests", "slow rests"]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("4KiB..64KiB", (4096, 16384, 65536)),
        ("4KiB..32KiB", (4096, 16384, 32768)),
        ("1000..1000", (1000,)),
        ("8,4KiB", (8, 4096)),
    ],
)
def test_sizes_are_a_range_or_a_list(text: str, sizes: tuple[int, ...]) -> None:
    assert bench._sizes(text) == sizes


def missing_torch(name: str, package: str | None = None) -> object:
    return None if name == "torch" else object()


def test_who_is_missing_and_asked_for_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_processes, "find_spec", missing_torch)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    mpi = refusal("bench", "allreduce", "--against", "mpi")
    assert mpi == "MPI is not installed; install Open MPI and mpi4py with: make mpi"
    assert "PyTorch, which is not installed" in refusal("bench", "allreduce", "--against", "gloo,mpi")


@NEEDS_MPI
def test_a_type_that_mpi_lacks_is_one_message() -> None:
    said = refusal("bench", "allreduce", "--against", "mpi", "--dtype", "bfloat16")
    assert said == "MPI has no bfloat16; use another --dtype, or leave mpi out of --against"


@pytest.mark.usefixtures("known_rates")
def test_who_is_missing_and_not_asked_for_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_processes, "find_spec", missing_torch)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = answer("bench", "allreduce", "--sizes", "64", "--repeat", 1)
    assert ["MPI" in note or "PyTorch" in note for note in found["notes"]] == [True, True]
    assert found["rows"][0]["mpi_seconds"] is None


@pytest.mark.usefixtures("known_rates")
def test_a_backend_that_cannot_start_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEMIOLA_SLOTS", "many")
    said = refusal("bench", "allreduce", "--sizes", "64", "--against", "")
    assert said.startswith("communicator could not go on: rank ")
    assert "HEMIOLA_SLOTS" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["allsum"], "'allsum'"),
        (["allreduce", "--ranks", "1"], "a number of ranks is between 2 and 256, but found 1"),
        (["allreduce", "--ranks", "two"], "numbers of ranks are written 2,4,8"),
        (["allreduce", "--sizes", "0"], "takes a multiple of 4 bytes, and not 0"),
        (["alltoall", "--ranks", "3", "--sizes", "8"], "alltoall of float32 on 3 ranks takes a multiple of 12 bytes"),
        (["allreduce", "--sizes", "64..4"], "a range begins above zero and ends no lower"),
        (["allreduce", "--sizes", "large"], "expected a size"),
        (["allreduce", "--against", "nccl"], "there is no backend 'nccl'; known are gloo, mpi"),
        (["allgather", "--against", "", "--sizes", "1TiB"], "use smaller sizes or fewer ranks"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_one_message(words: list[str], said: str) -> None:
    assert said in refusal("bench", *words)


def test_nothing_is_left_in_the_temporary_folder(
    known_rates: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    succeed("bench", "allreduce", "--sizes", "64", "--against", "", "--repeat", 1)
    assert list(tmp_path.iterdir()) == []
