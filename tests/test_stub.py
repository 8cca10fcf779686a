"""The stub of the core is what nanobind writes for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

STUB = Path(__file__).parents[1] / "src" / "hemiola" / "_core.pyi"


def test_the_stub_is_that_of_the_core(tmp_path: Path) -> None:
    fresh = tmp_path / "_core.pyi"
    for command in (
        ["nanobind.stubgen", "-q", "-m", "hemiola._core", "-o", str(fresh)],
        ["ruff", "format", "-q", "--config", str(STUB.parents[2] / "pyproject.toml"), str(fresh)],
    ):
        subprocess.run([sys.executable, "-m", *command], check=True)
    assert fresh.read_text() == STUB.read_text(), "the stub is old; write it anew with make stub"
