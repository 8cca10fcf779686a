"""Traces of steps: what Perfetto is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusion.steps import SumTimes, chain
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import evaluate
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan
from hemiola.fusion.timeline import COMMUNICATION, COMPUTE, write_step_trace

OWN = (30.0, 20.0, 10.0)
TIMES = CollectiveTimes.line(2.0, 0.1, 4)


def test_a_trace_has_every_group_message_and_optimizer_of_two_steps(tmp_path: Path) -> None:
    graph = chain(OWN, [(1, 0, 100), (2, 1, 200)])
    plan = FusionPlan.of(graph, [(0,), (1,), (2,)], [Bucket((0,)), Bucket((1,), BucketForm.SPLIT, 2)])
    path = tmp_path / "step.json"
    write_step_trace(path, graph, plan, SumTimes(OWN), TIMES)
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    named = [event["name"] for event in events if event["tid"] == COMMUNICATION]
    one_step = [
        "all-reduce of bucket 0",
        *["reduce-scatter of bucket 1"] * 2,
        *["all-gather of bucket 1"] * 2,
    ]
    assert named == one_step * 2
    assert len([event for event in events if event["tid"] == COMPUTE]) == 2 * (3 + 3)
    period = evaluate(graph, plan, SumTimes(OWN), TIMES).seconds * 1e6
    begins = [event["ts"] for event in events if event["name"] == "group 0"]
    assert begins == pytest.approx([0.0, period])
    again = tmp_path / "again.json"
    write_step_trace(again, graph, plan, SumTimes(OWN), TIMES)
    assert again.read_bytes() == path.read_bytes()
