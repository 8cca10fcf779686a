"""Perfetto: writes the recorded steps of a run as a trace that ui.perfetto.dev and chrome://tracing open.

Each rank is a process of the trace and each threadblock a thread of it. Times come from the monotonic clock, which all
processes of a host share, and are relative to the first event.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hemiola.ir.formats.files import write_atomically
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import NO_PEER, Plan, Rows
from hemiola.runtime.communicator.engine import TRACE


def write_trace(path: str | os.PathLike[str], plan: Plan, events: Mapping[int, Rows]) -> None:
    """Write the events of each rank, rows of ``engine.TRACE``; the same events give the same bytes."""
    write_atomically(path, trace_text(plan, events).encode())


def trace_text(plan: Plan, events: Mapping[int, Rows]) -> str:
    """The trace as JSON with one event per line: names first, then the steps by rank, threadblock and time."""
    start = min((int(rows["begin"].min()) for rows in events.values() if len(rows)), default=0)
    lines = [
        json.dumps(line)
        for rank in sorted(events)
        for line in (*_names(plan, rank), *_steps(plan, rank, events[rank], start))
    ]
    return '{"displayTimeUnit": "ns", "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"


def _names(plan: Plan, rank: int) -> Iterator[dict[str, Any]]:
    yield _name("process_name", rank, 0, name=f"rank {rank}")
    yield _name("process_sort_index", rank, 0, sort_index=rank)
    for number, row in enumerate(plan.threadblocks_of(rank)):
        block = plan.threadblocks[row]
        peers = (("from", "recv_peer"), ("to", "send_peer"))
        said = [f"{word} {int(block[side])}" for word, side in peers if block[side] != NO_PEER]
        yield _name("thread_name", rank, number, name=" ".join([f"threadblock {number}", *said]))
        yield _name("thread_sort_index", rank, number, sort_index=number)


def _name(kind: str, rank: int, threadblock: int, **arguments: object) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": rank, "tid": threadblock, "args": arguments}


def _steps(plan: Plan, rank: int, rows: Rows, start_ns: int) -> Iterator[dict[str, Any]]:
    assert rows.dtype == TRACE
    blocks = plan.threadblocks_of(rank)
    ordered = np.sort(rows, order=["threadblock", "begin", "tile", "step"])
    for threadblock, step, tile, _, begin, end, num_bytes in ordered.tolist():
        row = plan.steps_of(blocks[threadblock])[step]
        yield {
            "ph": "X",
            "name": TRAITS[int(plan.steps["opcode"][row])].name,
            "pid": rank,
            "tid": threadblock,
            "ts": (begin - start_ns) / 1000,
            "dur": (end - begin) / 1000,
            "args": {
                "step": step,
                "tile": tile,
                "bytes": num_bytes,
                **_where(plan, blocks[threadblock], row),
            },
        }


def _where(plan: Plan, block: int, row: int) -> dict[str, Any]:
    """The peers of a step and the line of the user's program, where it has any."""
    traits, ends = TRAITS[int(plan.steps["opcode"][row])], plan.threadblocks[block]
    peers = {"from": ("recv_peer", traits.receives), "to": ("send_peer", traits.sends)}
    said: dict[str, Any] = {word: int(ends[side]) for word, (side, used) in peers.items() if used}
    line = plan.line_of(row)
    return said if line is None else {**said, "line": line}
