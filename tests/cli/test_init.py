"""hemiola init: a job from options, which hemiola plan answers."""

from __future__ import annotations

import json
from pathlib import Path

from cli.invoke import answer, refusal, succeed
from hemiola.planner.job import read_job

CONFIG = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "hidden_act": "silu"}


def options(folder: Path, system: str = "hgx-h100:2") -> tuple[object, ...]:
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return ("--system", system, "--model", folder / "config.json", "--batch", 64, "--sequence", 4096, "-o", folder / "job.yaml")  # fmt: skip


def test_a_job_is_written_and_answered(tmp_path: Path) -> None:
    text = succeed("init", *options(tmp_path), "--axes", "tp=8,dp=2")
    assert f"hemiola plan {tmp_path / 'job.yaml'}" in text
    job = read_job(str(tmp_path / "job.yaml"))
    assert job.search_degrees
    assert job.axes is not None
    assert answer("plan", tmp_path / "job.yaml", "--quick")["degrees"]["yours"]["degrees"]["tp"] == 8


def test_what_is_wrong_is_said_before_anything_is_written(tmp_path: Path) -> None:
    assert "nearest sizes" in refusal("init", *options(tmp_path), "--axes", "tp=8,dp=3")
    assert not (tmp_path / "job.yaml").exists()
    assert "--system is missing" in refusal("init", "-o", tmp_path / "other.yaml")
    assert "--like hgx-h100" in refusal("init", *options(tmp_path, "2x4"))
    succeed("init", *options(tmp_path, "2x4"), "--like", "hgx-h100")
    assert "is there already" in refusal("init", *options(tmp_path))
