"""What a communicator says of itself: explanations, flight records and traces."""

from __future__ import annotations

import time

import numpy as np
import pytest

from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.errors import CollectiveError, PeerLostError
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.settings import Settings
from runtime.worlds import TIMEOUT, on_ranks, raising


def test_explain_says_which_plan_runs_and_why_every_other_does_not() -> None:
    def body(world: Communicator) -> str:
        explanation = world.explain("allreduce", 4096, in_place=True)
        assert explanation.chosen is not None
        assert explanation.chosen.reason
        names = {other.name for other in explanation.others}
        assert all(other.reason for other in explanation.others)
        assert explanation.chosen.plan.name not in names
        assert {"allreduce_ring", "allreduce_allpairs", "allreduce_one_step"} <= names | {
            explanation.chosen.plan.name
        }
        world.all_reduce(np.zeros(1024, np.float32))
        record = world.flight_record()[-1]
        assert explanation.chosen.plan.name in record.description
        assert explanation.chosen.digest[:4].hex() in record.description
        return str(explanation)

    found = on_ranks(3, body)
    assert len(set(found)) == 1
    assert "allreduce of 3 ranks on 1 host" in found[0]


def test_explain_refuses_what_is_no_collective() -> None:
    def body(world: Communicator) -> None:
        raising(CollectiveError, "there is no collective 'allsum'", lambda: world.explain("allsum", 8))
        raising(CollectiveError, "0 bytes or more", lambda: world.explain("allreduce", -8))

    on_ranks(2, body)


def test_the_flight_record_has_the_latest_calls() -> None:
    def body(world: Communicator) -> None:
        assert world.flight_record() == []
        before = time.monotonic()
        world.all_reduce(np.ones(8))
        world.broadcast(np.ones(3, np.int32), root=1)
        first, second = world.flight_record()
        assert (first.number, second.number) == (1, 2)
        assert "allreduce" in first.description
        assert "broadcast" in second.description
        assert "int32" in second.description
        assert first.seconds is not None
        assert second.seconds is not None
        assert before <= first.begin <= first.begin + first.seconds <= second.begin <= time.monotonic()
        for _ in range(100):
            world.barrier()
        record = world.flight_record()
        assert [flight.number for flight in record] == list(range(103 - len(record), 103))
        assert 32 <= len(record) < 102

    on_ranks(2, body)


def test_the_flight_record_tells_of_calls_under_way_and_failed_ones() -> None:
    def body(world: Communicator) -> None:
        if world.rank == 0:
            handle = world.all_reduce(np.ones(4), wait=False)
            assert handle is not None
            while not world.flight_record():
                time.sleep(0.001)
            assert world.flight_record()[0].seconds is None
            with pytest.raises(PeerLostError):
                handle.wait(TIMEOUT)
            assert world.flight_record()[0].seconds is None

    on_ranks(2, body, settings=Settings(timeout=0.3))


def test_the_flight_record_can_be_read_while_calls_come_and_go() -> None:
    def body(world: Communicator) -> int:
        data, seen = np.ones(1), 0
        handles = [world.all_reduce(data, op="avg", wait=False) for _ in range(200)]
        while not all(handle is not None and handle.done() for handle in handles):
            for flight in world.flight_record():
                assert "allreduce" in flight.description
                seen = max(seen, flight.number)
        return max(seen, world.flight_record()[-1].number)

    assert on_ranks(2, body) == [200, 200]


def test_a_trace_has_every_step() -> None:
    plan = compile_program(build("allreduce_ring", {"ranks": "3", "instances": "2", "in-place": "true"})).plan

    def body(world: Communicator) -> list[float]:
        data = np.ones(30_000)
        before = time.monotonic_ns()
        events = world.trace(plan, data)
        after = time.monotonic_ns()
        tiles = int(events["tile"].max()) + 1
        rows = plan.threadblocks_of(world.rank)
        lengths = [len(plan.steps_of(row)) for row in rows]
        assert len(events) == tiles * sum(lengths)
        places = {(e["threadblock"], e["step"], e["tile"]) for e in events}
        assert len(places) == len(events)
        assert events["threadblock"].max() + 1 == len(rows)
        assert (events["begin"] <= events["end"]).all()
        assert before <= events["begin"].min()
        assert events["end"].max() <= after
        for number in range(len(rows)):
            own = events[events["threadblock"] == number]
            assert (np.diff(own["end"].astype(np.int64)) >= 0).all()
        return [data.min(), data.max()]

    assert on_ranks(3, body, settings=Settings(slot_bytes=4096, workers=2)) == [[3.0, 3.0]] * 3
