"""A fabric with a bandwidth of its own carries what a protocol wastes as well."""

from __future__ import annotations

import pytest

from hemiola.collectives import Collective, CollectiveKind
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.topology.system import Fabric, Level, Link, ProtocolCosts, System

SYSTEM = System("one fabric", (Level("device", 4, Link(1e12, 1e12), Fabric(bandwidth=1e9)),))


@pytest.mark.parametrize("efficiency", [1.0, 0.5, 0.25])
def test_the_efficiency_of_a_protocol_counts_in_fabrics(efficiency: float) -> None:
    collective = Collective(CollectiveKind.ALLTOALL, 4, 1, False)
    bound = lower_bound(collective, 1 << 20, SYSTEM, ProtocolCosts(efficiency=efficiency))
    # Each of the four devices sends three quarters of its bytes to others.
    assert bound.seconds == pytest.approx(4 * 3 / 4 * (1 << 20) / (1e9 * efficiency))
    assert "fabric" in bound.why
