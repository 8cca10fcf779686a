"""The replay of a request runs the whole data of every group, however the groups lie on hosts."""

from __future__ import annotations

import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.replay_seconds import replay_seconds, searched_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.simulator.replay import simulate_together
from hemiola.simulator.timeline import Load
from hemiola.topology.system import Level, Link, System

MIB = 1 << 20
SYSTEM = System("two hosts", (Level("host", 2, Link(1e9, 1e9)), Level("gpu", 4, Link(1e11, 1e11))))
RING = compile_program(ALGORITHMS["allreduce_ring"].build(ranks=2, in_place=True)).plan
ALIKE = ((0, 1), (2, 3), (4, 5), (6, 7))
ACROSS_LAST = ((0, 1), (2, 4), (5, 6))
"""The first group is on one host, where messages are larger and tiles fewer; the second is on two."""


@pytest.mark.parametrize(
    "groups",
    [
        ALIKE,
        ((2, 4), (0, 1), (5, 6)),
        ACROSS_LAST,
    ],
)
@pytest.mark.parametrize("num_bytes", [8 * MIB, 16 * MIB])
def test_every_group_moves_all_of_its_data(groups: tuple[tuple[int, ...], ...], num_bytes: int) -> None:
    request = CollectiveRequest(CollectiveKind.ALLREDUCE, SYSTEM, groups)
    whole = simulate_together([Load(RING, num_bytes, group) for group in groups], SYSTEM).seconds
    assert replay_seconds(RING, num_bytes, request) == pytest.approx(whole, rel=1e-3)
    bound = lower_bound(request.collective, num_bytes, SYSTEM, groups=groups)
    for seconds in (replay_seconds, searched_seconds):
        assert seconds(RING, num_bytes, request) >= bound.seconds * (1 - 1e-9)
