"""Every estimate is within its stated distance of the replay of the best plan."""

from __future__ import annotations

import numpy as np
import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.estimates.distances import DISTANCES, distance_of
from hemiola.cost.estimates.explicit_groups import GroupCosts
from hemiola.cost.estimates.link_costs import LinkCosts
from hemiola.cost.estimates.placements import request_costs
from hemiola.placement.requests import find_placement, find_request
from hemiola.synthesis.estimate import estimate_programs
from hemiola.synthesis.state import REDUCTIONS
from hemiola.tuning.tune import tune
from plain_systems import plain_system

PLACED = [
    ("dgx-a100:2", "data=4,model=4", "2x2;1x4", "data"),
    ("dgx-a100:4", "data=8,model=4", "4x2;1x4", "data"),
    ("hgx-b200:2", "data=2,model=8", "2x1;1x8", "model"),
    ("azure-ncv4:2", "data=4,model=2", "2x1x2;1x2x1", "data"),
    ("mi300x:2", "data=4,model=4", "2x2;1x4", "model"),
]
KINDS = ("allreduce", "allgather", "reducescatter", "alltoall")


@pytest.mark.parametrize("num_bytes", [1 << 20, 1 << 26])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("system", "axes", "placement", "over"), PLACED)
def test_estimates_are_as_near_as_they_say(
    system: str, axes: str, placement: str, over: str, kind: str, num_bytes: int
) -> None:
    machine = plain_system(system)
    request = find_request(CollectiveKind(kind), machine, axes=axes, placement=placement, over=over)
    placed = find_placement(machine, axes, placement)
    assert placed.matrix is not None
    replayed = tune(request, [num_bytes]).sizes[0].chosen.seconds
    matrices, numbers = np.array([placed.matrix.rows]), [placed.names.index(over)]
    links = LinkCosts.of(request.system)
    found = {
        "placements": float(request_costs(request.kind, num_bytes, numbers, matrices, links).seconds[0]),
        "explicit_groups": GroupCosts(request.system).seconds(request.kind, num_bytes, request.table),
    }
    if request.kind in REDUCTIONS:
        found["programs"] = estimate_programs(request, num_bytes, 1)[0].seconds
    for name, seconds in found.items():
        stated = distance_of(name, num_bytes)
        assert stated is not None
        assert stated.least <= seconds / replayed <= stated.most, name


def test_nothing_is_stated_below_the_sizes_that_were_measured() -> None:
    assert all(distance_of(name, 1 << 10) is None for name in DISTANCES)
    assert str(distance_of("placements", 1 << 26)) == "0.95 to 1.15 times the replay from 64 MiB on"
