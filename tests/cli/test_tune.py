"""hemiola tune: windows in words, in JSON and in files."""

from __future__ import annotations

from pathlib import Path

from cli.invoke import answer, refusal, succeed
from hemiola.runtime.plans.directory_plans import DirectoryPlans
from hemiola.runtime.plans.plan_source import PlanRequest


def test_json_and_files(tmp_path: Path) -> None:
    folder = tmp_path / "plans"
    found = answer("tune", "alltonext", "--system", "rails-2x4", "--sizes", "64KiB..1MiB", "-o", folder)
    (window,) = found["windows"]
    assert window["algorithm"] == "alltonext_scattered"
    assert (window["min_bytes"], window["max_bytes"]) == (1 << 16, 1 << 20)
    assert [row["bytes"] for row in window["rows"]] == [1 << exponent for exponent in range(16, 21)]
    assert all(row["bound_seconds"] <= row["seconds"] < row["default_seconds"] for row in window["rows"])
    assert [Path(name).parent for name in found["files"]] == [folder]
    chosen = DirectoryPlans(folder).choose(PlanRequest("alltonext", 8, (0,) * 4 + (1,) * 4, 1 << 18, False))
    assert chosen.plan.name == "alltonext_scattered"


def test_words(tmp_path: Path) -> None:
    text = succeed("tune", "allreduce", "--system", "2x4", "--sizes", "4KiB..16KiB", "-o", tmp_path)
    assert "allreduce_hierarchical" in text
    assert "times the bound" in " ".join(text.split())
    assert "no plans were written" in text
    assert "allreduce,4096," in text
    assert (tmp_path / "nccl_tuner.csv").exists()


def test_bad_input_is_one_message(tmp_path: Path) -> None:
    assert "both ends must be powers of two" in refusal(
        "tune", "allreduce", "--system", "2x4", "--sizes", "3KiB..8KiB"
    )
    assert "there is no system" in refusal("tune", "allreduce", "--system", "nothing")
    assert "sizes begin above zero" in refusal("tune", "allreduce", "--system", "2x4", "--sizes", "0")
    assert "root 9 of broadcast" in refusal(
        "tune", "broadcast", "--system", "2x4", "--sizes", "4KiB", "--root", "9"
    )
    file = tmp_path / "file"
    file.write_text("")
    assert "cannot be made" in refusal(
        "tune", "alltonext", "--system", "rails-2x4", "--sizes", "64KiB", "-o", file
    )
