"""hemiola run: right results, sizes and types of every kind, refusals, and a trace."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cli.invoke import answer, invoke, refusal, succeed
from hemiola.ir.formats import read_plan, write_plan
from hemiola.ir.opcodes import Opcode
from hemiola.ir.targets import PLAN
from hemiola.runtime.checking import exercise
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.communicator.numbers import NUMBERS, OPERATORS
from hemiola.runtime.launch import run_ranks

DEMO = Path(__file__).parents[2] / "demo"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    out = tmp_path / "ring.plan"
    succeed("compile", "allreduce_ring", "-o", out, "--ranks", 3)
    return out


def test_a_plan_file_runs_and_is_checked(plan: Path) -> None:
    text = succeed("run", plan, "--bytes", "4KiB", "--repeat", 2)
    assert text.startswith("allreduce_ring: right\n")
    assert re.search(r"^  data +4KiB per rank, float32, sum, ranks are threads$", text, re.MULTILINE)
    assert re.search(r"^  checked +3072 elements in each of 3 runs$", text, re.MULTILINE)
    assert re.search(r"^  bus bandwidth +\S+B/s$", text, re.MULTILINE)


def test_the_answer_in_json(plan: Path) -> None:
    found = answer("run", plan, "--bytes", 600, "--dtype", "int8", "--op", "max", "--repeat", 4)
    assert found["ok"] is True
    assert found["wrong"] is None
    assert 0 < found["min_seconds"] <= found["seconds"] <= found["max_seconds"]
    assert found["algbw_bytes_per_second"] == pytest.approx(600 / found["seconds"])
    assert found["busbw_bytes_per_second"] == pytest.approx(800 / found["seconds"])
    said = {key: found[key] for key in ("bytes", "dtype", "op", "as", "repeat", "num_checked", "num_ranks")}
    assert said == {
        "bytes": 600, "dtype": "int8", "op": "max", "as": "threads", "repeat": 4, "num_checked": 1800, "num_ranks": 3,
    }  # fmt: skip


def test_ranks_can_be_processes(plan: Path) -> None:
    found = answer("run", plan, "--as", "processes", "--bytes", "64KiB", "--repeat", 1)
    assert (found["ok"], found["as"], found["bytes"]) == (True, "processes", 65536)


def test_an_algorithm_with_its_parameters() -> None:
    text = succeed("run", "allreduce_ring", "--repeat", 1, "--bytes", 400, "--", "--ranks=4", "--in-place")
    assert "allreduce of 4 ranks, in place" in text
    assert answer("run", "alltoall_two_step", "--repeat", 1, "--levels", "2,2", "--bytes", 64)["ok"]


def test_a_program_of_ones_own() -> None:
    assert answer("run", DEMO / "ring.py", "--repeat", 1, "--bytes", 4000, "--ranks", 4)["ok"]


@pytest.mark.parametrize("size", [0, 1, 7, 4096, 2**20 + 3])
def test_any_size_works(plan: Path, size: int) -> None:
    found = answer("run", plan, "--dtype", "uint8", "--bytes", size, "--repeat", 1)
    assert (found["ok"], found["bytes"], found["num_checked"]) == (True, size, 3 * size)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", OPERATORS)
def test_every_type_and_operator(plan: Path, dtype: str, op: str) -> None:
    assert answer("run", plan, "--dtype", dtype, "--op", op, "--bytes", 1000, "--repeat", 1)["ok"]


def test_an_input_of_shares_is_rounded_up_and_says_so() -> None:
    words = ("alltoall_allpairs", "--ranks", 4, "--bytes", 7, "--dtype", "int8", "--repeat", 1)
    assert answer("run", *words)["bytes"] == 8
    assert "8B (7B rounded up to 4 equal shares) per rank" in succeed("run", *words)


def test_messages_of_a_chosen_size(plan: Path) -> None:
    assert answer("run", plan, "--tile", "1KiB", "--bytes", "100KB", "--repeat", 1)["ok"]


def test_a_trace_has_every_step_of_every_rank(plan: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    found = answer("run", plan, "--trace", trace, "--bytes", 1200, "--repeat", 1)
    assert found["trace"] == str(trace)
    events = json.loads(trace.read_text())["traceEvents"]
    steps = [event for event in events if event["ph"] == "X"]
    assert len(steps) == found["num_steps"]
    assert {event["pid"] for event in steps} == {0, 1, 2}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in steps)


def test_a_plan_that_is_not_correct_is_not_run(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = read_plan(plan)
    wrong.steps["dst_index"][wrong.steps["opcode"] == Opcode.R] = 0
    write_plan(wrong, plan, PLAN)
    monkeypatch.setattr(exercise, "run_ranks", None)
    result = invoke("run", plan)
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith(f"{plan}: not run, because it is not correct, ")
    assert "postcondition: " in result.stdout
    found = answer("run", plan, code=1)
    assert (found["ok"], found["seconds"], found["algbw_bytes_per_second"]) == (False, None, None)
    assert found["failures"]


def test_a_wrong_result_is_a_no_that_names_the_element(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(Communicator):
        """Loses an element on rank 1."""

        def run(self, plan, input, output=None, *, op="sum", wait=True):  # type: ignore[no-untyped-def]  # noqa: A002
            super().run(plan, input, output, op=op)
            if self.rank == 1:
                output[5] += 1000

    monkeypatch.setattr(exercise, "Communicator", Careless)
    found = answer("run", plan, "--bytes", 400, code=1)
    assert not found["ok"]
    assert (found["wrong"]["rank"], found["wrong"]["buffer"], found["wrong"]["index"]) == (1, "output", 5)
    result = invoke("run", plan, "--bytes", 400)
    assert result.exit_code == 1
    assert result.stdout.startswith("allreduce_ring: WRONG\n")
    assert "wrong: rank 1: element 5 of its output should be " in result.stdout


def test_a_rank_that_fails_is_one_message(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(rank: int, store: object, asked: object) -> None:
        raise ValueError(f"no thread for rank {rank}")

    monkeypatch.setattr(exercise, "run_ranks", lambda n, _, *rest, kind: run_ranks(n, fail, *rest, kind=kind))
    assert re.fullmatch(r"rank (\d) failed: ValueError: no thread for rank \1", refusal("run", plan))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bytes", "7"], "an element of float32 has 4 bytes, and 7 bytes are no whole number of them"),
        (["--dtype", "float8"], "--dtype"),
        (["--op", "mean"], "--op"),
        (["--as", "fibres"], "--as"),
        (["--repeat", "0"], "--repeat"),
        (["--timeout", "0"], "--timeout"),
        (["--in-place"], "is a plan for calls out of place only"),
        (["--ranks", "3"], "a plan file has no parameters, but --ranks was given"),
        (["--", "--ranks=3"], "a plan file has no parameters, but --ranks=3 was given"),
        (["--polish"], "There is no option --polish"),
    ],
)
def test_a_wrong_option_is_one_message(plan: Path, words: list[str], said: str) -> None:
    assert said in refusal("run", plan, *words)


def test_what_is_neither_file_nor_algorithm_is_one_message(tmp_path: Path) -> None:
    assert refusal("run", "allreduce_rong").startswith("there is no algorithm 'allreduce_rong'")
    assert refusal("run", "missing.plan").startswith("missing.plan: cannot be read")
    assert refusal("run", tmp_path / "missing").startswith(str(tmp_path))
