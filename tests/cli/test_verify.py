"""hemiola verify: yes, no with the reasons, and bad input."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.invoke import answer, invoke, refusal, succeed
from hand_made import reduce_by_pairs
from hemiola.ir.formats import read_plan, write_plan
from hemiola.ir.formats.msccl_xml_write import to_xml
from hemiola.ir.opcodes import Opcode
from hemiola.ir.targets import AZURE_XML, PLAN

DEMO = Path(__file__).parents[2] / "demo"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    out = tmp_path / "ring.plan"
    succeed("compile", "allreduce_ring", "-o", out, "--ranks", 4)
    return out


@pytest.fixture
def deadlock(tmp_path: Path) -> Path:
    out = tmp_path / "exchange.xml"
    made = subprocess.run([sys.executable, DEMO / "exchange_20_chunks.py"], capture_output=True, check=True)
    out.write_bytes(made.stdout)
    return out


def test_a_correct_plan(plan: Path) -> None:
    text = succeed("verify", plan)
    assert text.startswith(f"{plan}: correct\n")
    assert re.search(r"^  postcondition +holds$", text, re.MULTILINE)
    assert answer("verify", plan) == {
        "ok": True,
        "failures": [],
        "slots": 2,
        "same_expression": True,
        "preserves_input": True,
        "postcondition_known": True,
        "num_steps": 28,
    }


def test_a_deadlock_is_shown_as_a_cycle(deadlock: Path) -> None:
    result = invoke("verify", deadlock)
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith(f"{deadlock}: not correct, 1 failure\n")
    assert (
        "rank 0, threadblock 0, step 2 (s) waits for a free slot to threadblock 0 of rank 1" in result.stdout
    )
    assert all(len(line) <= 100 for line in result.stdout.splitlines()[1:])
    found = answer("verify", deadlock, code=1)
    assert not found["ok"]
    first = found["failures"][0]
    assert [first[key] for key in ("kind", "rank", "threadblock", "step", "line")] == [
        "deadlock",
        0,
        0,
        2,
        None,
    ]


@pytest.mark.parametrize(("slots", "code"), [(0, 1), (8, 1), (19, 1), (20, 0)])
def test_slots_decide_about_a_deadlock(deadlock: Path, slots: int, code: int) -> None:
    found = answer("verify", deadlock, "--slots", slots, code=code)
    assert found["slots"] == slots


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Right up to 16 MiB under rccl; its file has no range."""
    out = tmp_path / "pairs.xml"
    out.write_text(to_xml(reduce_by_pairs(4, 8), AZURE_XML))
    return out


@pytest.mark.parametrize("runtime", ["rccl", "msccl", "nccl"])
def test_sizes_decide_about_a_deadlock(pairs: Path, runtime: str) -> None:
    found = answer("verify", pairs, "--runtime", runtime, code=1)
    last, first = 16 << 20, (16 << 20) + 32
    assert [found[key] for key in ("ok", "runtime", "protocol", "slots")] == [False, runtime, "Simple", 2]
    assert [found["hangs_from_bytes"], found["correct_to_bytes"]] == [first, last]
    assert found["sizes"] == [
        {"min_bytes": 32, "max_bytes": last, "hangs": False},
        {"min_bytes": first, "max_bytes": None, "hangs": True},
    ]
    text = invoke("verify", pairs, "--runtime", runtime).stdout
    assert text.startswith(
        f"{pairs}: correct under {runtime} with Simple only up to {last} bytes; it hangs from {first} on\n"
    )
    assert "waits for a free slot to threadblock" in text
    assert f'Way out: write maxBytes="{last}" into the file' in text


def test_a_range_below_the_deadlock_is_correct(pairs: Path) -> None:
    pairs.write_text(pairs.read_text().replace('maxBytes="0"', f'maxBytes="{11 << 20}"'))
    found = answer("verify", pairs, "--runtime", "rccl")
    assert (found["ok"], found["failures"], found["hangs_from_bytes"]) == (True, [], (16 << 20) + 32)
    text = succeed("verify", pairs, "--runtime", "rccl")
    assert text.startswith(f"{pairs}: correct under rccl with Simple\n")
    assert "keep its maxBytes" in text


def test_a_plan_that_no_size_lets_hang(plan: Path) -> None:
    for runtime in ("rccl", "msccl", "nccl", "hemiola"):
        assert answer("verify", plan, "--runtime", runtime)["hangs_from_bytes"] is None
    assert "none at any size with 2 slots" in succeed("verify", plan, "--runtime", "rccl")
    assert answer("verify", plan, "--runtime", "rccl", "--slots", 3)["slots"] == 3


def test_without_a_runtime_the_way_to_sizes_is_said(pairs: Path) -> None:
    text = invoke("verify", pairs).stdout
    assert "--runtime rccl or msccl" in text.replace("\n", " ")


def test_fused_files_are_refused_for_rccl(tmp_path: Path) -> None:
    out = tmp_path / "ring.xml"
    succeed("compile", "allreduce_ring", "-o", out, "--target", "azure-xml", "--ranks", 4)
    (failure,) = answer("verify", out, "--runtime", "rccl", "--target", "rccl-xml", code=1)["failures"]
    assert failure["kind"] == "limit"
    assert "the operation is rrs" in failure["message"]
    succeed("compile", "allreduce_ring", "-o", out, "--target", "rccl-xml", "--ranks", 4)
    assert answer("verify", out, "--runtime", "rccl", "--target", "rccl-xml")["ok"]


def test_a_wrong_plan_names_the_chunk(plan: Path) -> None:
    wrong = read_plan(plan)
    wrong.steps["dst_index"][wrong.steps["opcode"] == Opcode.R] = 0
    write_plan(wrong, plan, PLAN)
    found = answer("verify", plan, code=1)
    assert {failure["kind"] for failure in found["failures"]} >= {"postcondition"}
    assert "promises" in found["failures"][-1]["message"]


def test_limits_of_a_target_are_failures(tmp_path: Path) -> None:
    out = tmp_path / "long.plan"
    succeed("compile", "allreduce_ring", "-o", out, "--ranks", 40)
    assert answer("verify", out)["ok"]
    (failure,) = answer("verify", out, "--target", "rccl-xml", code=1)["failures"]
    assert failure["kind"] == "limit"
    assert "the number of steps" in failure["message"]
    assert (
        "limit: rank 0, threadblock 0: the number of steps"
        in invoke("verify", out, "--target", "rccl-xml").stdout
    )


def test_the_root_of_a_file_that_does_not_say_it(tmp_path: Path) -> None:
    out = tmp_path / "b.xml"
    succeed("compile", "broadcast_chain", "-o", out, "--target", "rccl-xml", "--", "--ranks=4", "--root=2")
    out.write_text(out.read_text().replace(' root="2"', ""))
    assert "the input has 0 chunks, but broadcast needs 8" in refusal("verify", out)
    assert answer("verify", out, "--root", 2)["ok"]


HOSTILE = {
    "empty": b"",
    "text": b"hello",
    "zeros": b"\0" * 100,
    "bomb": b'<!DOCTYPE a [<!ENTITY x "xxxx"><!ENTITY y "&x;&x;&x;">]><algo name="&y;"/>',
    "outside": b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><algo name="&x;"/>',
    "truncated": b'<algo name="a" proto="Simple" ngpus="2"',
    "other": b"<html><body/></html>",
    "absurd": b'<algo name="a" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="99999999999" coll="allreduce" inplace="1">',
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("verb", ["verify", "show"])
def test_a_hostile_file_is_one_message(tmp_path: Path, verb: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    assert refusal(verb, path).startswith(str(path))


def test_a_truncated_native_file_is_one_message(plan: Path) -> None:
    whole = plan.read_bytes()
    for end in (9, 20, len(whole) // 2, len(whole) - 1):
        plan.write_bytes(whole[:end])
        assert refusal("verify", plan).startswith(str(plan))


def test_what_is_no_file_is_one_message(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "pipe", "/dev/zero"):
        assert refusal("verify", path).startswith(str(path))


@pytest.mark.parametrize("words", [["--slots=many"], ["--slots=-1"], ["--slots=99999999999"], ["--target=gold"], ["--root=-1"]])  # fmt: skip
def test_a_wrong_option_is_one_message(plan: Path, words: list[str]) -> None:
    assert words[0].partition("=")[0] in refusal("verify", plan, *words)
