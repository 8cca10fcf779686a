"""Programs are ordered by their pipelined time, found by every way to count, and each step costs what its largest group holds."""

from __future__ import annotations

from math import prod

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.estimates.grouped_steps import GroupedStep, StepClock
from hemiola.cost.request import CollectiveRequest
from hemiola.synthesis.costs import edge_costs
from hemiola.synthesis.estimate import estimate_programs
from hemiola.synthesis.groups import groupings
from hemiola.synthesis.program import STEPS
from hemiola.synthesis.search import cheapest
from hemiola.synthesis.table import table_of
from hemiola.topology.system import Level, Link, System

ALLREDUCE = CollectiveKind.ALLREDUCE
SIZE = 1 << 24


def three_levels(counts: tuple[int, ...], bandwidths: tuple[float, ...]) -> System:
    """Racks, hosts and devices without latencies."""
    names = ("rack", "host", "device")
    return System(
        "three levels",
        tuple(
            Level(name, count, Link(b, b)) for name, count, b in zip(names, counts, bandwidths, strict=True)
        ),
    )


def test_the_pipelined_time_decides_where_steps_in_turn_have_another_order() -> None:
    system = three_levels((2, 2, 4), (36.9e9, 43.7e9, 59.2e9))
    found = estimate_programs(CollectiveRequest.of_system(ALLREDUCE, system), SIZE, 5)
    seconds = [one.seconds for one in found]
    blocking = [one.blocking_seconds for one in found]
    assert seconds == sorted(seconds)
    assert blocking != sorted(blocking)


@pytest.mark.parametrize(
    ("counts", "bandwidths"),
    [((4, 3, 4), (2.27e9, 6.55e9, 3.59e9)), ((4, 3, 3), (2.25e9, 31.15e9, 5.07e9))],
)
def test_a_program_that_spares_the_busiest_level_is_found_though_it_is_slow_in_turn(
    counts: tuple[int, ...], bandwidths: tuple[float, ...]
) -> None:
    system, table = three_levels(counts, bandwidths), table_of(3)
    (first,) = estimate_programs(CollectiveRequest.of_system(ALLREDUCE, system), SIZE, 1)
    costs = edge_costs(table, system, SIZE)
    in_turn = cheapest(table, costs.seconds, 4)
    assert first.seconds < 0.95 * min(costs.pipelined(one.path) for one in in_turn)


def test_a_step_whose_groups_hold_unequal_parts_costs_what_the_largest_holds() -> None:
    system, table = three_levels((2, 3, 4), (1e9, 10e9, 100e9)), table_of(3)
    costs, clock, factors = edge_costs(table, system, SIZE), StepClock(system), (2, 3, 4)
    uneven = 0
    for edge, row in enumerate(table.edges):
        parts = [bits for bits in range(1 << 3) if int(row["scatterings"]) >> bits & 1]
        if len(parts) == 1:
            continue
        uneven += 1
        held = max(SIZE / prod(factors[one] for one in range(3) if bits >> one & 1) for bits in parts)
        way = groupings(3)[int(row["grouping"])]
        step = GroupedStep(STEPS[int(row["collective"])].value, way.first, way.end, way.master)
        assert costs.seconds[edge] == pytest.approx(clock.time(step, held).seconds)
    assert uneven
