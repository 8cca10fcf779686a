"""hemiola calibrate: from a log to a system, in words, in JSON and in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.invoke import answer, refusal, succeed
from hemiola.topology.presets import load_system

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
    assert found["mean_error"] < 0.01
    assert found["parameters"]["Simple efficiency"] == pytest.approx(0.8, rel=1e-2)
    assert len(found["rows"]) == 18
    written = load_system(str(out))
    assert written.protocols["Simple"].efficiency == pytest.approx(0.8, rel=1e-2)


def test_words(files: tuple[Path, Path]) -> None:
    log, system = files
    text = succeed("calibrate", log, "--system", system)
    assert "Simple efficiency" in text
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
