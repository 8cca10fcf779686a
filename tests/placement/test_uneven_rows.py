"""On an uneven system the placements of a ranking stand in the order of their own times, with every link looked at."""

from __future__ import annotations

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.estimates.explicit_groups import GroupCosts
from hemiola.placement.axes import parse_axes
from hemiola.placement.place import place
from hemiola.placement.regular_part import regular_part
from hemiola.placement.score import grid_seconds, rank_placements
from hemiola.placement.traffic import Traffic, TrafficRequest
from hemiola.topology.system import Level, Link, System

SYSTEM = System(
    "one slow device",
    (Level("host", 4, Link(5e9, 5e9, 1e-6)), Level("device", 2, Link(10e9, 10e9, 1e-6))),
    exceptions={(1, 1): Link(1e9, 1e9, 1e-6)},
)
AXES = parse_axes("data=4,model=2")
TRAFFIC = Traffic(
    tuple(
        TrafficRequest(CollectiveKind.ALLREDUCE, (name,), num_bytes)
        for name, num_bytes in (("data", 64 << 20), ("model", 16 << 20))
    )
)


def test_every_row_has_its_own_time_and_the_fastest_is_first() -> None:
    result = place(SYSTEM, AXES, TRAFFIC, replay=False)
    assert result.ranking is not None
    costs = GroupCosts(SYSTEM)
    own = [
        grid_seconds(costs.seconds, score.matrix.device_grid(), AXES, TRAFFIC)
        for score in result.ranking.scores
    ]
    assert list(result.seconds_of_rows) == pytest.approx(own)
    assert own == sorted(own)
    # As if all devices were alike, another placement would come first.
    regular = regular_part(SYSTEM)
    assert regular is not None
    alike = rank_placements(regular, AXES, TRAFFIC).scores
    assert alike[0].matrix != result.ranking.scores[0].matrix
