"""timeline: a step of a plan for ui.perfetto.dev and chrome://tracing.

Two threads, computation and communication, over two steps of the steady state, so that all-gathers are seen behind the next forward pass.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from hemiola._core import MessageKind, StepResult
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import simulated_step
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.group_times import GroupTimes
from hemiola.fusion.plan import FusionPlan
from hemiola.ir.formats.files import write_atomically
from hemiola.units import format_bytes

NUM_STEPS = 2
COMPUTE, COMMUNICATION = 0, 1
KINDS = {
    MessageKind.ALLREDUCE: "all-reduce",
    MessageKind.REDUCE_SCATTER: "reduce-scatter",
    MessageKind.ALL_GATHER: "all-gather",
}
MOST_NAMES = 8
"""Operators and parameters that an event names."""


def write_step_trace(
    path: str | os.PathLike[str],
    graph: OpGraph,
    plan: FusionPlan,
    times: GroupTimes,
    collectives: CollectiveTimes,
) -> None:
    """Write the timeline of a plan; the same plan gives the same bytes."""
    result = simulated_step(graph, plan, times, collectives, record=True)
    lines = ",\n".join(json.dumps(event) for event in step_events(graph, plan, result))
    write_atomically(path, f'{{"displayTimeUnit": "ms", "traceEvents": [\n{lines}\n]}}\n'.encode())


def step_events(graph: OpGraph, plan: FusionPlan, result: StepResult) -> Iterator[dict[str, Any]]:
    """Names first, then the events of each step by stream and time; the step was recorded."""
    yield _name("process_name", COMPUTE, f"step of {graph.name}")
    yield _name("thread_name", COMPUTE, "computation")
    yield _name("thread_name", COMMUNICATION, "communication")
    for step in range(NUM_STEPS):
        shift = step * result.seconds
        yield from _compute_events(graph, plan, result, shift)
        yield from _message_events(graph, plan, result, shift)


def _compute_events(
    graph: OpGraph, plan: FusionPlan, result: StepResult, shift: float
) -> Iterator[dict[str, Any]]:
    spans = np.reshape(result.tasks, (-1, 2)) + shift
    sent = [message for message in result.messages if message.kind != MessageKind.ALL_GATHER]
    for number, (begin, end) in enumerate(spans.tolist()):
        if number < len(plan.groups):
            group = plan.groups[number]
            named = [graph.operators[one].name for one in group[:MOST_NAMES]]
            about = {"operators": len(group), "first": named}
            yield _slice(f"group {number}", COMPUTE, begin, end, about)
        else:
            message = sent[number - len(plan.groups)]
            yield _slice(f"optimizer of bucket {message.bucket}", COMPUTE, begin, end, {"part": message.part})


def _message_events(
    graph: OpGraph, plan: FusionPlan, result: StepResult, shift: float
) -> Iterator[dict[str, Any]]:
    spans = np.reshape(result.message_spans, (-1, 2)) + shift
    for message, (begin, end) in zip(result.messages, spans.tolist(), strict=True):
        members = plan.buckets[message.bucket].gradients
        about = {
            "bytes": format_bytes(int(message.bytes)),
            "part": message.part,
            "gradients": len(members),
            "first": [graph.gradients[one].parameter for one in members[:MOST_NAMES]],
            "share of the core": message.share,
        }
        yield _slice(f"{KINDS[message.kind]} of bucket {message.bucket}", COMMUNICATION, begin, end, about)


def _name(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": 0, "tid": thread, "args": {"name": name}}


def _slice(name: str, thread: int, begin: float, end: float, about: dict[str, Any]) -> dict[str, Any]:
    """Times of the format are microseconds."""
    return {
        "ph": "X",
        "name": name,
        "pid": 0,
        "tid": thread,
        "ts": begin * 1e6,
        "dur": (end - begin) * 1e6,
        "args": about,
    }
