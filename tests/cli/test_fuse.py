"""hemiola fuse: from a trace without a model, with prices of a system or with what the trace measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.invoke import answer, refusal, succeed
from fusion.traces import event, gpu_step
from hemiola.fusion.plan import plan_from_json


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(gpu_step()))
    return path


def test_a_trace_gives_buckets_their_time_and_a_timeline(trace: Path, tmp_path: Path) -> None:
    plan, timeline = tmp_path / "fusion.json", tmp_path / "timeline.json"
    found = answer("fuse", "--trace", trace, "-o", plan, "--timeline", timeline)
    assert set(found["baselines"]) == {"an all-reduce per gradient", "DDP's buckets", "all merged"}
    assert found["bound_seconds"] <= found["seconds"] <= min(found["baselines"].values())
    # Two all-reduces of 1 MB in 305 us and 2 kB in 200 us: both in one message end after 600 + 305 us, then 190 us of the optimizer.
    assert found["baselines"]["all merged"] == pytest.approx((510 + 305 + 190) * 1e-6, rel=0.01)
    assert found["collective_times"] == "measured"
    written = plan_from_json(json.loads(plan.read_text()))
    assert sorted(one for bucket in written.buckets for one in bucket.gradients) == [0, 1]
    assert written.gradients == (("gradient 0", 1_000_000), ("gradient 1", 2_000))
    assert json.loads(timeline.read_text())["traceEvents"]


def test_the_same_trace_gives_the_same_bytes(trace: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for path in (first, second):
        answer("fuse", "--trace", trace, "-o", path)
    assert first.read_bytes() == second.read_bytes()


def test_prices_of_a_system_stand_in_for_measured_times(trace: Path) -> None:
    found = answer("fuse", "--trace", trace, "--system", "wan-2x1", "--workers", "2")
    assert found["collective_times"] == "replayed"
    assert found["seconds"] > 1e-2  # a megabyte over 500 Mbit/s


def test_words_say_what_stays_exposed_and_how_to_apply_it(trace: Path, tmp_path: Path) -> None:
    text = " ".join(succeed("fuse", "--trace", trace, "-o", tmp_path / "plan.json").split())
    assert "exposed communication" in text
    assert "above the one that applies" in text
    assert "hemiola.torch.bucket(ddp_model, plan) carries it out" in text


def test_a_trace_of_one_size_needs_a_system(tmp_path: Path) -> None:
    document = gpu_step()
    rows = [row for row in document["traceEvents"] if not row["name"].startswith("nccl")]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    assert "0 sizes" in refusal("fuse", "--trace", path)


def test_mistakes_get_one_sentence(trace: Path, tmp_path: Path) -> None:
    assert "one of them" in refusal("fuse")
    assert "one of them" in refusal("fuse", "transformer", "--trace", trace)
    broken = tmp_path / "collectives.json"
    broken.write_text("[]")
    assert "measure_collectives" in refusal("fuse", "--trace", trace, "--collectives", broken)
    assert "3 workers were asked for" in refusal(
        "fuse", "--trace", trace, "--system", "wan-2x1", "--workers", "3"
    )
    broken.write_text(json.dumps({"traceEvents": [event("a", "kernel", 0, 1)]}))
    assert "AccumulateGrad" in refusal("fuse", "--trace", broken)
