"""hemiola simulate on files of real runtimes, each on the machine that it was made for; left out where they are absent."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cli.invoke import answer

FILES = Path(__file__).parents[3] / "shared" / "data" / "msccl-xml"
SYSTEMS = {"azure-ncv4": "azure-ncv4", "azure-ndv4": "azure-ndv4", "rccl": "mi300x"}
NUM_FILES = 8

pytestmark = pytest.mark.skipif(not FILES.is_dir(), reason=f"{FILES} is not there")


def system_of(name: str) -> str:
    """The preset for a file, by the beginning of its name."""
    return next(system for start, system in SYSTEMS.items() if name.startswith(start))


def check_event(event: dict[str, Any]) -> None:
    """What the Chrome trace format asks of the phases that we write."""
    assert event["ph"] in ("X", "M", "i", "C")
    assert isinstance(event["name"], str)
    assert isinstance(event["pid"], int)
    if event["ph"] == "X":
        assert isinstance(event["tid"], int)
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        assert math.isfinite(event["ts"] + event["dur"])


def test_all_files_have_a_time_a_bound_and_a_trace(tmp_path: Path) -> None:
    files = sorted(FILES.glob("*.xml"))
    assert len(files) == NUM_FILES
    for file in files:
        trace = tmp_path / f"{file.stem}.json"
        found = answer("simulate", file, "--system", system_of(file.name), "--trace", trace)
        assert 0 < found["bound_seconds"] <= found["seconds"], file.name
        document = json.loads(trace.read_text())
        for event in document["traceEvents"]:
            check_event(event)
        steps = [event for event in document["traceEvents"] if event["ph"] == "X"]
        assert {event["pid"] for event in steps} == set(range(found["num_ranks"]))
        last = max(event["ts"] + event["dur"] for event in steps)
        assert last == pytest.approx(1e6 * found["seconds"], rel=1e-3), file.name
