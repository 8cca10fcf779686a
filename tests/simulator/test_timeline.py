"""Timelines: the critical path covers all of the time, links carry what plans send, and traces are valid."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from hemiola.errors import LimitError
from hemiola.ir.plan import Plan
from hemiola.simulator.drawing import SHADES, draw
from hemiola.simulator.replay import ReplayOptions, simulate, simulate_together
from hemiola.simulator.runtimes.runtime_model import EqualTiles
from hemiola.simulator.timeline import Load
from hemiola.simulator.trace import check_traceable, trace_events, write_trace
from hemiola.topology.shapes import load_shape
from hemiola.topology.system import Compute, System
from simulator.scenes import hosts, library_plan, small_plans, systems

EVERYTHING = ReplayOptions(record=True, fold=False)


@settings(max_examples=80, deadline=None)
@given(plan=small_plans(), system=systems())
def test_the_critical_path_covers_the_whole_time_without_gaps(plan: Plan, system: System) -> None:
    for options in (ReplayOptions(record=True), EVERYTHING):
        found = simulate(plan, system, 1 << 20, runtime=EqualTiles(3), options=options)
        pieces = found.pieces
        np.testing.assert_allclose(pieces["begin"][1:], pieces["end"][:-1], rtol=1e-9)
        assert pieces["begin"][0] == 0
        assert pieces["end"][-1] == pytest.approx(found.seconds, rel=1e-9)
        assert sum(reason.part for reason in found.reasons) == pytest.approx(1, rel=1e-9)
        assert np.all(found.link_use <= 1 + 1e-9)


def test_the_longest_reason_is_the_narrow_link() -> None:
    plan = library_plan("allreduce_ring", "ranks=8")
    found = simulate(plan, load_shape("uneven-4x2"), 1 << 22, options=ReplayOptions(record=True))
    assert found.reasons[0].words.startswith("waiting for NIC 0 of host 3")
    assert found.reasons[0].part > 0.9
    assert found.network.name(int(found.link_use.argmax())).startswith("NIC 0 of host 3")
    uplink = simulate(plan, load_shape("2racks-2x2"), 1 << 22, options=ReplayOptions(record=True))
    assert uplink.reasons[0].words == "waiting for the uplink of rack 0 (3 more alike)"


def test_links_carry_what_a_ring_sends() -> None:
    plan = library_plan("allreduce_ring", "ranks=4")
    found = simulate(plan, hosts(4, 1), 1 << 20)
    used = found.link_bytes[found.link_bytes > 0]
    np.testing.assert_allclose(used, 2 * 3 / 4 * (1 << 20))
    assert len(used) == 4 * 4  # NIC and device, out and in


def test_a_trace_has_a_track_for_every_threadblock_and_is_chrome_json(tmp_path: Path) -> None:
    plan = library_plan("allreduce_hierarchical", "ranks=8 levels=4,2")
    system = hosts(4, 2, latency=1e-5, compute=Compute(add_bandwidth=5e9))
    found = simulate(plan, system, 1 << 20, options=EVERYTHING)
    path = tmp_path / "trace.json"
    write_trace(path, found)
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X"}
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in slices} == set(range(8))
    acting = {(event["pid"], event["tid"]) for event in slices if event["tid"] % 2 == 0}
    assert len(acting) == len(plan.threadblocks)
    steps = [event for event in slices if event["tid"] % 2 == 0 and not event["name"].startswith("waits")]
    assert len(steps) == plan.num_steps * len(found.chunk_bytes[0])
    assert max(event["ts"] + event["dur"] for event in steps) == pytest.approx(found.seconds * 1e6)
    for track in acting | {(event["pid"], event["tid"]) for event in slices}:
        mine = [event for event in slices if (event["pid"], event["tid"]) == track]
        for before, after in pairwise(mine):
            assert before["ts"] + before["dur"] <= after["ts"] * (1 + 1e-9)


def test_a_trace_of_two_plans_has_the_ranks_of_both() -> None:
    plan = library_plan("allreduce_ring", "ranks=4")
    loads = [Load(plan, 1 << 20, [0, 2, 4, 6]), Load(plan, 1 << 20, [1, 3, 5, 7])]
    found = simulate_together(loads, hosts(4, 2), options=EVERYTHING)
    names = [event["args"]["name"] for event in trace_events(found) if event["name"] == "process_name"]
    assert names[0] == "rank 0 of allreduce_ring (0)"
    assert names[-1] == "rank 3 of allreduce_ring (1)"


def test_a_trace_that_no_viewer_opens_is_refused() -> None:
    with pytest.raises(LimitError, match="at most 1000000 steps"):
        check_traceable(1_000_001)


def test_a_drawing_shows_who_is_busy_when() -> None:
    plan = library_plan("broadcast_chain", "ranks=4 chunks=1")
    found = simulate(plan, hosts(4, 1), 1 << 20, runtime=EqualTiles(1), options=EVERYTHING)
    lines = draw(found, width=30)
    bars = [line.split("|")[1] for line in lines]
    assert all(len(bar) == 30 and set(bar) <= set(SHADES) for bar in bars)
    full = [{at for at, shade in enumerate(bar) if shade == SHADES[-1]} for bar in bars]
    assert full[:3] == [set(range(10)), set(range(10, 20)), set(range(20, 30))]  # one after another
    assert not full[3]
    assert draw(simulate(plan, hosts(4, 1), 1 << 20)) == []
