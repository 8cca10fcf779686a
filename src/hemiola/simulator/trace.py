"""trace: a timeline for ui.perfetto.dev and chrome://tracing.

Each rank is a process, and each threadblock a thread of it, with its steps and what they waited for; what a
threadblock sends is a second thread below it. Several plans have their ranks one after another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from hemiola._core import Cause
from hemiola.errors import LimitError
from hemiola.ir.formats.files import write_atomically
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import NO_PEER, Plan, Rows
from hemiola.simulator.timeline import Timeline

MAX_STEPS = 1_000_000
"""Steps of tiles that a trace may have; viewers take no more."""
WAITED_FOR = {Cause.DEPENDENCY: "a dependency", Cause.MESSAGE: "a message", Cause.SLOT: "a slot"}


def check_traceable(num_steps: int) -> None:
    """Refuse what no viewer opens."""
    if num_steps > MAX_STEPS:
        raise LimitError(
            f"a trace has at most {MAX_STEPS} steps, but this has {num_steps}; take fewer bytes or larger tiles"
        )


def write_trace(path: str | os.PathLike[str], timeline: Timeline) -> None:
    """Write a timeline that was simulated unfolded and with records; the same timeline gives the same bytes."""
    lines = ",\n".join(json.dumps(event) for event in trace_events(timeline))
    write_atomically(path, f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n'.encode())


def trace_events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Names first, then steps, by threadblock and time."""
    assert len(timeline.records) == timeline.num_steps, "a trace needs records of every rank"
    check_traceable(timeline.num_steps)
    first_record = first_rank = 0
    for number, (load, tiles) in enumerate(zip(timeline.loads, timeline.chunk_bytes, strict=True)):
        plan = load.plan
        label = "" if len(timeline.loads) == 1 else f" of {plan.name} ({number})"
        for rank in range(plan.num_ranks):
            yield _name("process_name", first_rank + rank, 0, name=f"rank {rank}{label}")
            yield _name("process_sort_index", first_rank + rank, 0, sort_index=first_rank + rank)
            for thread, row in enumerate(plan.threadblocks_of(rank)):
                num_records = len(plan.steps_of(row)) * len(tiles)
                records = timeline.records[first_record : first_record + num_records]
                first_record += num_records
                yield from _threadblock(plan, row, first_rank + rank, thread, records, tiles.tolist())
        first_rank += plan.num_ranks


def _threadblock(
    plan: Plan, row: int, process: int, number: int, records: Rows, tiles: list[float]
) -> Iterator[dict[str, Any]]:
    block, steps = plan.threadblocks[row], plan.steps_of(row)
    peers = (("from", "recv_peer"), ("to", "send_peer"))
    said = [f"{word} {int(block[side])}" for word, side in peers if block[side] != NO_PEER]
    acting, sending = 2 * number, 2 * number + 1
    yield _name("thread_name", process, acting, name=" ".join([f"threadblock {number}", *said]))
    yield _name("thread_sort_index", process, acting, sort_index=acting)
    if block["send_peer"] != NO_PEER:
        name = f"threadblock {number} sends to {int(block['send_peer'])}"
        yield _name("thread_name", process, sending, name=name)
        yield _name("thread_sort_index", process, sending, sort_index=sending)
    end = 0.0
    for record in records:
        step = steps[int(record["step"])]
        traits = TRAITS[int(plan.steps["opcode"][step])]
        num_bytes = tiles[int(record["tile"])] * int(plan.steps["count"][step])
        about = {"step": int(record["step"]), "tile": int(record["tile"]), "bytes": num_bytes}
        line = plan.line_of(step)
        if line is not None:
            about["line"] = line  # type: ignore[assignment]
        cause = Cause(int(record["cause"]))
        if record["begin"] > end and cause in WAITED_FOR:
            waited = f"waits for {WAITED_FOR[cause]}"
            yield _slice(waited, process, acting, end, float(record["begin"]), {"step": about["step"]})
        end = float(record["end"])
        yield _slice(traits.name, process, acting, float(record["begin"]), end, about)
        if traits.sends:
            yield _slice(
                f"{traits.name} {about['step']}", process, sending, float(record["depart"]), float(record["sent"]), about
            )  # fmt: skip


def _name(kind: str, process: int, thread: int, **arguments: object) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": arguments}


def _slice(
    name: str, process: int, thread: int, begin: float, end: float, about: dict[str, Any]
) -> dict[str, Any]:
    """Times of the format are microseconds."""
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": begin * 1e6,
        "dur": (end - begin) * 1e6,
        "args": about,
    }
