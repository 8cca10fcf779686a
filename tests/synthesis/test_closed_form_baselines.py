"""What programs are compared with where nothing is replayed: a ring that reaches the bound of a flat system, for every collective."""

from __future__ import annotations

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.synthesis.synthesize import synthesize
from hemiola.topology.system import Level, Link, System

FLAT = System("flat", (Level("device", 4, Link(1e9, 1e9)),))


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCESCATTER])
def test_a_flat_ring_without_latency_takes_the_bound(kind: CollectiveKind) -> None:
    result = synthesize(CollectiveRequest.of_system(kind, FLAT), 1 << 20, replay=False)
    (ring,) = result.baselines
    # Every device receives three of the four parts of the bytes, over one link.
    assert ring.seconds == pytest.approx(3 / 4 * (1 << 20) / 1e9)
    assert ring.seconds == pytest.approx(result.bound.seconds)
