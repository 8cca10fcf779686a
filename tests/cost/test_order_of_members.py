"""Members of a placement's groups stand in the order of devices, but for an alltonext, whose order has a meaning."""

from __future__ import annotations

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.topology.shapes import load_shape

TURNED = [[4, 0, 5, 1], [2, 6, 7, 3]]


@pytest.mark.parametrize(
    "kind", [CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL, CollectiveKind.ALLTONEXT]
)
def test_only_an_alltonext_keeps_the_order_of_a_placement(kind: CollectiveKind) -> None:
    found = CollectiveRequest.of_groups(kind, load_shape("2x4"), TURNED).groups
    kept = kind is CollectiveKind.ALLTONEXT
    assert found == tuple(tuple(group if kept else sorted(group)) for group in TURNED)
