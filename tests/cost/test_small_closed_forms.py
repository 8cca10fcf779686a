"""Closed forms by hand: tiny data through two levels, latencies of exchanges level by level, and rings over one link or over all."""

from __future__ import annotations

import numpy as np
import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.cost.estimates.explicit_groups import GroupCosts
from hemiola.cost.estimates.grouped_steps import GroupedStep, StepClock
from hemiola.cost.estimates.link_costs import LinkCosts
from hemiola.cost.estimates.placements import request_costs
from hemiola.cost.replay_seconds import replay
from hemiola.cost.request import CollectiveRequest
from hemiola.simulator.runtimes.hemiola import HEMIOLA
from hemiola.topology.system import Level, Link, System

ALLREDUCE = CollectiveKind.ALLREDUCE


def two_hosts(latency: float = 0.0, num: int = 1) -> System:
    """Two hosts of four devices, whose own links are fast."""
    host, device = Link(1e9, 1e9, 5 * latency, num=num), Link(1e11, 1e11, latency)
    return System("two hosts", (Level("host", 2, host), Level("device", 4, device)))


def test_data_of_less_than_a_tile_goes_through_one_level_after_another() -> None:
    matrices = np.array([[[2, 4]]])
    found = request_costs(ALLREDUCE, 1024, (0,), matrices, LinkCosts.of(two_hosts()))
    # Twice: half of each device's quarter over the host's link, three quarters over the device's.
    assert found.seconds[0] == pytest.approx(2 * (1024 / 2 / 1e9 + 1024 * 3 / 4 / 1e11))


def test_exchanges_of_every_level_wait_for_a_message() -> None:
    seconds = GroupCosts(two_hosts(1e-6)).seconds(ALLREDUCE, 0.001, np.arange(8).reshape(1, 8))
    # Twice: between hosts over two links of a host and two of a device, inside over two of a device.
    assert seconds == pytest.approx(2 * (2 * 5e-6 + 2 * 1e-6 + 2 * 1e-6), rel=1e-3)


def test_a_ring_leaves_a_host_by_one_link_unless_it_is_cut_into_several() -> None:
    clock, step = StepClock(two_hosts(num=4)), GroupedStep("allreduce", 0, 2)
    one, every = clock.ring(step, 1 << 20), clock.ring(step, 1 << 20, every_link=True)
    assert one.loads[0] == pytest.approx(2 * 7 / 8 * (1 << 20) / 1e9)
    assert every.loads[0] == pytest.approx(one.loads[0] / 4)


def test_tiles_are_those_of_the_group_that_has_most() -> None:
    request = CollectiveRequest(ALLREDUCE, two_hosts(), ((0, 1), (2, 4), (5, 6)))
    plan = compile_program(ALGORITHMS["allreduce_ring"].build(ranks=2, in_place=True)).plan
    numbers = {len(HEMIOLA.tiles(plan, 8 << 20, hosts, None)) for hosts in request.host_patterns}
    assert len(numbers) == 2
    assert replay(plan, 8 << 20, request).num_tiles == max(numbers)
