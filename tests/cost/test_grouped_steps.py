"""What steps cost devices and hosts beside links, in closed form, against replays of rings and chains."""

from __future__ import annotations

import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.cost.estimates.grouped_steps import GroupedStep, RingClock
from hemiola.ir.plan import Plan
from hemiola.simulator.replay import simulate
from hemiola.simulator.runtimes.runtime_model import EqualTiles
from hemiola.topology.system import Compute, Level, Link, System

NO_LIMIT = 1e18
RATE = 1e9
NUM_BYTES = 1 << 24
RINGS = {
    "allreduce": "allreduce_ring", "reducescatter": "reducescatter_ring", "allgather": "allgather_ring",
    "reduce": "reduce_chain", "broadcast": "broadcast_chain",
}  # fmt: skip
LIMITS = {
    "cores of a host": Compute(host_core_bandwidth=RATE),
    "a core each": Compute(core_bandwidth=RATE),
    "copies of a host": Compute(host_copy_bandwidth=RATE),
    "copies of a device": Compute(copy_bandwidth=RATE),
    "additions of a host": Compute(host_add_bandwidth=RATE),
    "additions of a device": Compute(add_bandwidth=RATE),
}


def one_host(num_ranks: int, compute: Compute) -> System:
    """Ranks whose links limit nothing."""
    return System("one host", (Level("rank", num_ranks, Link(NO_LIMIT, NO_LIMIT)),), compute=compute)


def ring(kind: str, num_ranks: int) -> Plan:
    """In place, where there is such a form."""
    return compile_program(ALGORITHMS[RINGS[kind]].build(ranks=num_ranks, in_place=True)).plan


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", RINGS)
@pytest.mark.parametrize("num_ranks", [2, 3, 4, 8])
def test_work_is_what_a_replay_finds(kind: str, num_ranks: int, limit: str) -> None:
    """With many tiles nobody waits for the first piece, and what is busiest is busy all the time."""
    system = one_host(num_ranks, LIMITS[limit])
    num_bytes = CollectiveKind(kind).from_input_bytes(NUM_BYTES, num_ranks)
    replayed = simulate(ring(kind, num_ranks), system, num_bytes, runtime=EqualTiles(64)).seconds
    closed = RingClock(system).time(GroupedStep(kind, 0, 1), NUM_BYTES).seconds
    assert closed == pytest.approx(replayed, rel=0.12, abs=1e-9)


def test_only_the_hosts_that_take_part_work() -> None:
    """Masters over racks: half of the hosts do all the work."""
    levels = [Level(name, 2, Link(NO_LIMIT, NO_LIMIT)) for name in ("rack", "host", "rank")]
    system = System("racks", tuple(levels), compute=Compute(host_copy_bandwidth=RATE))
    found = RingClock(system).time(GroupedStep("allgather", 0, 1, masters=True), NUM_BYTES)
    # Two members copy twice their input each, and both are on hosts of their own.
    assert found.seconds == pytest.approx(2 * NUM_BYTES / RATE)
