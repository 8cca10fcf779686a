"""hemiola calibrate: from a log to a system, in words, in JSON and in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.invoke import answer, refusal, succeed
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.ir.formats import read_plan, write_plan
from hemiola.ir.targets import TARGETS
from hemiola.topology.presets import load_system
from simulator.scenes import library_plan

SYSTEM = "name: eight\nlevels:\n  - {name: device, count: 8, link: {bandwidth: 100GB/s, latency: 1us}}\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A log of an all-reduce at 2 us a step and 80 % of the links, and the system."""
    rows = []
    for exponent in range(12, 30):
        size = 1 << exponent
        time = 14 * 2.0 + 1e6 * 1.75 * size / 80e9
        rows.append(f"{size} {size // 4} float sum -1 {time:.3f} 1 1 0 {time:.3f} 1 1 0")
    log, system = tmp_path / "all_reduce.log", tmp_path / "eight.yaml"
    log.write_text("# noise\n" + "\n".join(rows))
    system.write_text(SYSTEM)
    return log, system


def test_json_and_file(files: tuple[Path, Path], tmp_path: Path) -> None:
    log, system = files
    out = tmp_path / "fitted.yaml"
    found = answer("calibrate", log, "--system", system, "-o", out)
    assert found["mean_error"] < 0.15
    assert found["num_constants"] <= 36 // 4
    assert len(found["rows"]) == 36, "out of place and in place"
    written = load_system(str(out))
    assert written.protocols["Simple"].efficiency == found["parameters"]["Simple efficiency"]


def test_a_table_of_plans_and_what_simulate_prints_then(tmp_path: Path) -> None:
    """Plans are files beside the table; rows at which the runtime does not use its file are left out."""
    plan = library_plan("allgather_ring", "ranks=8 in_place=true")
    write_plan(plan, tmp_path / "ring.xml", TARGETS["rccl-xml"])
    plan = read_plan(tmp_path / "ring.xml")
    preset = load_system("mi300x")
    request = CollectiveRequest.of_system(plan.collective.kind, preset)
    sizes = [1 << exponent for exponent in range(10, 26)]
    rows = [f"ring,allgather,{size},{1.3 * replay_seconds(plan, size, request)}" for size in sizes]
    table, fitted = tmp_path / "times.csv", tmp_path / "cal.yaml"
    table.write_text("\n".join(["plan,collective,bytes,seconds", *rows, "ring,allgather,1028,1e-4"]))
    found = answer("calibrate", table, "--system", "mi300x", "-o", fitted)
    assert found["mean_error"] < 0.05
    assert len(found["rows"]) == 16
    assert "1 rows of times.csv were left out" in found["notes"][0]
    for row in found["rows"][::5]:
        said = answer("simulate", tmp_path / "ring.xml", "--system", fitted, "--bytes", row["bytes"])
        assert said["seconds"] == row["predicted_seconds"]
    table.write_text("plan,collective,bytes,seconds\nnone,allgather,1024,1e-4\n")
    assert "there is no such plan" in refusal("calibrate", table, "--system", "mi300x")


def test_words(files: tuple[Path, Path]) -> None:
    log, system = files
    text = succeed("calibrate", log, "--system", system)
    assert "Simple efficiency" in text
    assert "constants fitted" in text
    assert "mean error of rows not fitted" in text


def test_bad_input_is_one_message(files: tuple[Path, Path], tmp_path: Path) -> None:
    log, system = files
    assert "cannot be read" in refusal("calibrate", tmp_path / "none.log", "--system", system)
    empty = tmp_path / "all_reduce_2.log"
    empty.write_text("# nothing\n")
    assert "no rows of nccl-tests" in refusal("calibrate", empty, "--system", system)
    assert "there is no system" in refusal("calibrate", log, "--system", "unheard-of")
    assert "cannot be written" in refusal(
        "calibrate", log, "--system", system, "-o", tmp_path / "no" / "x.yaml"
    )
