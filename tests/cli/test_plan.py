"""hemiola plan: what it prints and writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hemiola.cli.main import main

DEMO = Path(__file__).parents[2] / "demo"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["plan", *words])


def test_a_job_is_answered_on_one_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(str(DEMO / "job.yaml"), "--quick", "-o", "out", "--what-if", "8 nodes")
    assert result.exit_code == 0, result.output
    for word in ("trust", "yours", "best", "gain", "degrees", "placement", "collectives", "what if"):
        assert word in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 130
    assert (tmp_path / "out" / "job_plan.json").exists()
    assert (tmp_path / "out" / "placement" / "README.md").exists()


def test_json_has_every_part() -> None:
    result = run(str(DEMO / "job_experts.yaml"), "--quick", "--json", "--what-if", "host 3 lost")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found) >= {
        "version",
        "job",
        "trust",
        "degrees",
        "placement",
        "collectives",
        "exposed",
        "what_if",
        "files",
    }
    assert found["degrees"]["yours"]["degrees"]["ep"] == 8
    assert found["what_if"][0]["num_devices"] == 56


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("system: hgx-h100:2\nmodle: {}\n")
    result = run(str(path))
    assert result.exit_code == 2
    assert "did you mean model?" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_page_is_made_again(tmp_path: Path) -> None:
    assert run(str(DEMO / "job_uneven.yaml"), "--quick", "-o", str(tmp_path)).exit_code == 0
    page = tmp_path / "report.html"
    before = page.read_text("utf-8")
    page.unlink()
    result = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert page.read_text("utf-8") == before
    assert CliRunner().invoke(main, ["report", str(tmp_path / "nowhere")]).exit_code == 2
