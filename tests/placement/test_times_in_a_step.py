"""A request counts as often as a step has it and with its own bytes, by estimates and by replays alike."""

from __future__ import annotations

import numpy as np
import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.placement.axes import parse_axes
from hemiola.placement.priced import price_requests, replayed_seconds
from hemiola.placement.score import grid_seconds
from hemiola.placement.traffic import Traffic, TrafficRequest
from hemiola.topology.system import Level, Link, System
from hemiola.tuning.tune import tune

ALLREDUCE = CollectiveKind.ALLREDUCE
AXES = parse_axes("data=2,model=2")
GRID = np.arange(4).reshape(2, 2)
TWO_BY_TWO = System(
    "two by two", (Level("host", 2, Link(1e9, 1e9, 5e-6)), Level("device", 2, Link(10e9, 10e9, 1e-6)))
)


def test_a_request_counts_as_often_as_a_step_has_it() -> None:
    once = TrafficRequest(ALLREDUCE, ("data",), 4096)
    often = TrafficRequest(ALLREDUCE, ("model",), 4096, 3.0)
    seconds = grid_seconds(lambda kind, num_bytes, groups: 0.5, GRID, AXES, Traffic((once, often)))
    assert seconds == pytest.approx(0.5 + 3 * 0.5)


def test_requests_of_the_same_groups_are_priced_by_their_own_bytes() -> None:
    system, sizes = TWO_BY_TWO, (4096, 1 << 20)
    traffic = Traffic(tuple(TrafficRequest(ALLREDUCE, ("data",), size, 2.0) for size in sizes))
    request = CollectiveRequest.of_groups(ALLREDUCE, system, [[0, 2], [1, 3]])
    expected = [2 * tune(request, [size]).sizes[0].chosen.seconds for size in sizes]
    assert [one.seconds for one in price_requests(system, GRID, AXES, traffic)] == expected
    assert replayed_seconds(system, GRID, AXES, traffic) == pytest.approx(sum(expected))
    assert expected[0] < expected[1]
