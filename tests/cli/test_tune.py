"""hemiola tune: windows in words, in JSON and in files."""

from __future__ import annotations

from pathlib import Path

from cli.invoke import answer, refusal, succeed
from hemiola.collectives import CollectiveKind
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
    chosen = DirectoryPlans(folder).choose(
        PlanRequest(CollectiveKind.ALLTONEXT, 8, (0,) * 4 + (1,) * 4, 1 << 18, False)
    )
    assert chosen.plan.name == "alltonext_scattered"


def test_words(tmp_path: Path) -> None:
    text = succeed("tune", "allreduce", "--system", "2x4", "--sizes", "4KiB..16KiB", "-o", tmp_path)
    assert "the runtime's own allreduce_hierarchical" in " ".join(text.split())
    assert "times the bound" in " ".join(text.split())
    num_plans = len(list(tmp_path.glob("allreduce-*.plan")))
    assert num_plans > 0
    assert f"Wrote {num_plans} plans to {tmp_path}" in " ".join(text.split())
    assert "allreduce,4096," in text
    assert (tmp_path / "nccl_tuner.csv").exists()


def test_nothing_is_written_where_the_default_stays(tmp_path: Path) -> None:
    text = succeed("tune", "alltonext", "--system", "2x4", "--sizes", "4KiB..16KiB", "-o", tmp_path)
    assert "the runtime's own choice, and nothing is faster" in " ".join(text.split())
    assert "no plans were written" in text
    assert not list(tmp_path.iterdir())


def test_groups_of_a_placement_are_tuned_together() -> None:
    words = ("allreduce", "--system", "2x4", "--sizes", "1MiB", "--axes", "data=4,model=2")
    found = answer("tune", *words, "--over", "data")
    assert (found["num_ranks"], found["num_groups"]) == (4, 2)
    inside = answer("tune", *words, "--over", "data", "--placement", "1x4;2x1")
    assert inside["windows"][0]["rows"][0]["seconds"] < found["windows"][0]["rows"][0]["seconds"] / 10


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
