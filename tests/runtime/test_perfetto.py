"""The trace file: named tracks, stable order, and times from the first event on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan, Rows
from hemiola.runtime.communicator.engine import TRACE
from hemiola.runtime.perfetto import trace_text, write_trace


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_program(build("allreduce_ring", {"ranks": "3"})).plan


def events_of(plan: Plan, rank: int, tiles: int = 2) -> Rows:
    """Every step of a rank once per tile, each a microsecond long, in an order that is not that of time."""
    rows = [
        (block, step, tile, 0, 10_000 + 2_000 * (100 * tile + step), 11_000 + 2_000 * (100 * tile + step), 64)
        for block, row in enumerate(plan.threadblocks_of(rank))
        for step in range(len(plan.steps_of(row)))
        for tile in range(tiles)
    ]
    return np.array(rows[::-1], TRACE)


def read(text: str) -> list[dict[str, Any]]:
    found = json.loads(text)["traceEvents"]
    assert isinstance(found, list)
    return found


def test_every_rank_is_a_process_and_every_threadblock_a_thread(plan: Plan) -> None:
    trace = read(trace_text(plan, {rank: events_of(plan, rank) for rank in range(3)}))
    names = {(e["pid"], e["name"]): e["args"] for e in trace if e["ph"] == "M" and "process" in e["name"]}
    assert [names[rank, "process_name"] for rank in range(3)] == [{"name": f"rank {r}"} for r in range(3)]
    threads = [(e["pid"], e["tid"], e["args"]["name"]) for e in trace if e["name"] == "thread_name"]
    assert len(threads) == len(plan.threadblocks)
    assert (1, 0, "threadblock 0 from 0 to 2") in threads


def test_steps_are_named_and_in_the_order_of_time(plan: Plan) -> None:
    trace = [e for e in read(trace_text(plan, {1: events_of(plan, 1)})) if e["ph"] == "X"]
    first = plan.threadblocks_of(1)[0]
    mine = [e for e in trace if e["tid"] == 0]
    opcodes = [TRAITS[int(plan.steps["opcode"][row])].name for row in plan.steps_of(first)]
    assert [e["name"] for e in mine] == 2 * opcodes
    assert [e["ts"] for e in mine] == sorted(e["ts"] for e in mine)
    assert (mine[0]["ts"], mine[0]["dur"]) == (0, 1)
    assert mine[0]["args"] == {"step": 0, "tile": 0, "bytes": 64, **peers_of(plan, first)}


def peers_of(plan: Plan, block: int) -> dict[str, Any]:
    """What the first step of a ring has: it sends what is its own."""
    row = plan.steps_of(block)[0]
    return {"to": int(plan.threadblocks["send_peer"][block]), "line": plan.line_of(row)}


def test_the_same_events_give_the_same_bytes(plan: Plan, tmp_path: Path) -> None:
    events = {rank: events_of(plan, rank) for rank in range(3)}
    turned = {rank: events[rank][::-1].copy() for rank in (2, 0, 1)}
    write_trace(tmp_path / "a.json", plan, events)
    write_trace(tmp_path / "b.json", plan, turned)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_no_event_is_still_a_trace(plan: Plan) -> None:
    trace = read(trace_text(plan, {0: np.empty(0, TRACE)}))
    assert {e["ph"] for e in trace} == {"M"}
