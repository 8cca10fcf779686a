"""Rankings: what is chosen, and what it is compared with."""

import pytest

from hemiola.ir.verify import verify
from hemiola.synthesis.costs import edge_costs
from hemiola.synthesis.rank import Question
from hemiola.synthesis.search import paths_up_to
from hemiola.synthesis.share import shared_system
from hemiola.synthesis.state import Request
from hemiola.synthesis.table import table_of
from hemiola.topology.presets import load_system
from hemiola.topology.system import Level, Link, System

THREE = System(
    "three levels",
    (
        Level("rack", 2, Link(1e9, 1e9, 5e-6)),
        Level("host", 3, Link(10e9, 10e9, 2e-6)),
        Level("gpu", 4, Link(100e9, 100e9, 1e-6)),
    ),
)


@pytest.mark.parametrize("num_bytes", [1 << 10, 1 << 20, 1 << 30])
def test_the_first_is_the_best_of_all_pipelined(num_bytes: int) -> None:
    share = shared_system(load_system("dgx-a100:4"), ((4, 2), (1, 4)), [0])
    table = table_of(2)
    costs = edge_costs(table, share, num_bytes)
    best = min(costs.pipelined(path) for path in paths_up_to(table, 5))
    ranking = Question(share, num_bytes).rank(3, replay=False)
    assert ranking.programs[0].seconds == pytest.approx(best)


def test_the_first_is_the_best_of_all_pipelined_over_three_levels() -> None:
    table = table_of(3)
    costs = edge_costs(table, THREE, 1 << 26)
    best = min(costs.pipelined(path) for path in paths_up_to(table, 10))
    assert Question(THREE, 1 << 26).rank(1, replay=False).programs[0].seconds == pytest.approx(best)


def test_closed_forms_do_not_beat_the_bound() -> None:
    for request in Request:
        ranking = Question(THREE, 1 << 28, request).rank(5, replay=False)
        assert all(one.seconds >= ranking.bound.seconds * (1 - 1e-9) for one in ranking.programs), request


def test_replayed_programs_and_defaults_do_not_beat_the_bound() -> None:
    share = shared_system(load_system("dgx-a100:2"), ((2, 2), (1, 4)), [0])
    ranking = Question(share, 1 << 26).rank(2)
    times = [one.seconds for one in ranking.programs] + [one.seconds for one in ranking.baselines]
    assert min(times) >= ranking.bound.seconds
    assert [one.replayed is not None for one in ranking.programs] == [True, True]
    assert ranking.keeps_default == (ranking.programs[0].seconds >= ranking.baseline.seconds)
    assert {"allreduce_ring", "allreduce_double_binary_tree"} <= {one.name for one in ranking.baselines}


def test_a_program_near_the_bound_says_so_and_others_say_why() -> None:
    share = shared_system(load_system("dgx-a100:4"), ((4, 2), (1, 4)), [0])
    near = Question(share, 1 << 30).rank(1, replay=False)
    assert near.programs[0].pipelined_seconds <= 1.05 * near.bound.seconds
    assert near.distance.endswith("times the bound.")
    assert "latency" in Question(share, 1 << 12).rank(1, replay=False).distance
    switched = shared_system(load_system("gb200-nvl72:2"), ((1, 24), (2, 3)), [0])
    assert "add up what passes" in Question(switched, 1 << 26).rank(1, replay=False).distance


def test_steps_that_overlap_come_within_five_percent_of_the_bound() -> None:
    """The inside of a host and its NICs are busy at the same time; in turn, steps take their sum."""
    share = shared_system(load_system("dgx-a100:2"), ((2, 8),), [0])
    ranking = Question(share, 1 << 30).rank(1)
    first = ranking.programs[0]
    assert ranking.bound.seconds <= first.seconds <= 1.05 * ranking.bound.seconds
    assert first.seconds < 0.7 * first.blocking_seconds
    assert not ranking.keeps_default
    assert first.replayed is not None
    assert first.replayed.plan is not None
    assert verify(first.replayed.plan, slots=2).ok
