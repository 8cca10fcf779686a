"""Many reductions at once give what one by one gives."""

import numpy as np
import pytest

from hemiola.synthesis.best import best_programs
from hemiola.synthesis.costs import edge_costs
from hemiola.synthesis.search import cheapest, cheapest_of_each, paths_up_to
from hemiola.synthesis.share import Matrix, shared_system
from hemiola.synthesis.table import table_of
from hemiola.topology.system import Level, Link, System

MACHINE = System(
    "three levels",
    (
        Level("rack", 2, Link(1e9, 1e9, 5e-6)),
        Level("host", 4, Link(10e9, 10e9, 2e-6)),
        Level("gpu", 4, Link(100e9, 100e9, 1e-6)),
    ),
)
PLACEMENTS: list[Matrix] = [
    ((2, 2, 2), (1, 2, 2)),
    ((1, 4, 2), (2, 1, 2)),
    ((2, 4, 1), (1, 1, 4)),
    ((2, 1, 4), (1, 4, 1)),
]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_column_is_a_question_of_its_own(depth: int) -> None:
    table = table_of(depth)
    costs = np.random.default_rng(depth).uniform(0.5, 1.5, (len(table.edges), 5))
    for column, found in enumerate(cheapest_of_each(table, costs)):
        (alone,) = cheapest(table, costs[:, column])
        assert found.cost == pytest.approx(alone.cost)
        assert float(costs[list(found.path), column].sum()) == pytest.approx(alone.cost)


@pytest.mark.parametrize("num_bytes", [1 << 12, 1 << 20, 1 << 28])
def test_the_best_of_all_programs_is_found_for_every_placement(num_bytes: int) -> None:
    shares = [shared_system(MACHINE, matrix, rows) for matrix in PLACEMENTS for rows in ([0], [1], [0, 1])]
    for share, best in zip(shares, best_programs(shares, [num_bytes] * len(shares)), strict=True):
        table = table_of(best.program.depth)
        costs = edge_costs(table, share, num_bytes)
        paths = paths_up_to(table, 10 if share.levels[0].count * share.levels[1].count < 4 else 6)
        assert best.seconds <= min(costs.pipelined(path) for path in paths) * 1.01


def test_a_group_of_one_device_has_nothing_to_do() -> None:
    share = shared_system(MACHINE, ((2, 4, 4), (1, 1, 1)), [1])
    (best,) = best_programs([share], [1 << 20])
    assert (len(best.program), best.seconds) == (0, 0.0)
