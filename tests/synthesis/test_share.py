"""What one reduction group has of a machine, and what steps cost on it."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.cost.estimates.shared_system import shared_system
from hemiola.cost.group_shape import regular_factors
from hemiola.errors import TopologyError
from hemiola.synthesis.costs import edge_costs
from hemiola.synthesis.program import parse_program
from hemiola.synthesis.search import cheapest, paths_up_to, programs_up_to
from hemiola.synthesis.table import table_of
from hemiola.topology.system import Edge, Fabric, Level, Link, System
from synthesis.execute_on_arrays import execute
from synthesis.placed_groups import Matrix, placed_groups

NIC, INSIDE = 8e9, 270e9
PROGRAMS = {
    "flat": "allreduce(0, InsideGroup)",
    "rs-ar-ag": "reducescatter(1, InsideGroup); allreduce(1, Parallel(0)); allgather(1, InsideGroup)",
    "ar-ar": "allreduce(1, InsideGroup); allreduce(1, Parallel(0))",
    "r-ar-b": "reduce(1, InsideGroup); allreduce(1, Master(0)); broadcast(1, InsideGroup)",
}


def two_levels(num_hosts: int, devices: int) -> System:
    return System(
        "two levels",
        (Level("host", num_hosts, Link(NIC, NIC)), Level("gpu", devices, Link(INSIDE, INSIDE))),
    )


@pytest.mark.parametrize(
    ("hosts", "inside", "conc", "times"),
    [
        (2, 16, 1, (1.04, 0.57, 8.62, 0.57)),
        (2, 2, 8, (6.44, 4.31, 8.61, 4.33)),
        (2, 4, 4, (3.76, 2.17, 8.61, 2.18)),
        (4, 4, 4, (8.05, 6.49, 25.8, 6.51)),
        (4, 16, 1, (2.11, 1.67, 25.8, 1.67)),
    ],
)
def test_blocking_times_are_those_of_the_model_table(
    hosts: int, inside: int, conc: int, times: tuple[float, ...]
) -> None:
    share = shared_system(two_levels(hosts, inside * conc), placed_groups(((hosts, inside), (1, conc)), [0]))
    table = table_of(2)
    costs = edge_costs(table, share, 2**29 * hosts * 4)
    by_text = {str(table.program(path)): path for path in paths_up_to(table, 5)}
    for text, seconds in zip(PROGRAMS.values(), times, strict=True):
        found = costs.blocking(by_text[str(parse_program(text, 2))])
        assert found == pytest.approx(seconds, rel=0.01), text


@given(st.integers(1, 64), st.sampled_from([(2, 4), (4, 4), (3, 5)]))
def test_a_pipeline_of_one_piece_blocks_and_more_are_faster(pieces: int, shape: tuple[int, int]) -> None:
    table = table_of(2)
    costs = edge_costs(table, two_levels(*shape), 1 << 28)
    for path in list(paths_up_to(table, 5))[::7]:
        assert costs.pipelined(path, 1) == pytest.approx(costs.blocking(path))
        assert costs.pipelined(path, pieces) <= costs.blocking(path) * (1 + 1e-12)
        assert costs.pipelined(path, pieces) >= costs.loads[list(path)].sum(axis=0).max() * (1 - 1e-12)


@pytest.mark.parametrize("depth", [2, 3])
def test_the_cheapest_are_those_that_trying_all_finds(depth: int) -> None:
    table = table_of(depth)
    costs = np.random.default_rng(depth).uniform(0.5, 1.5, len(table.edges))
    paths = list(paths_up_to(table, 5 if depth == 2 else 10))
    assert len(paths) == (104 if depth == 2 else 30_941)
    all_costs = sorted(float(costs[list(path)].sum()) for path in paths)
    for k in (1, 12):
        found = cheapest(table, costs, k)
        assert [one.cost for one in found] == pytest.approx(all_costs[:k])
        assert len({one.path for one in found}) == k


def test_devices_of_the_worked_example() -> None:
    matrix: Matrix = ((1, 1, 2, 2), (1, 2, 1, 2))
    evens, odds = [[0, 2, 4, 6], [8, 10, 12, 14]], [[1, 3, 5, 7], [9, 11, 13, 15]]
    assert sorted(placed_groups(matrix, [0]).tolist()) == sorted(evens + odds)
    halves = [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]]
    assert sorted(placed_groups(matrix, [1]).tolist()) == halves


def test_factors_of_one_level_are_merged() -> None:
    matrix: Matrix = ((2, 2), (1, 3), (2, 1))
    groups = placed_groups(matrix, [0, 1])
    assert groups.tolist() == [[*range(6), *range(12, 18)], [*range(6, 12), *range(18, 24)]]
    assert regular_factors(two_levels(4, 6), groups) == (2, 6)


def test_links_are_shared_by_the_groups_inside_a_unit() -> None:
    share = shared_system(two_levels(4, 8), placed_groups(((2, 4), (2, 2)), [0]))
    assert [level.count for level in share.levels] == [2, 4]
    host, gpu = (level.link for level in share.levels)
    assert host is not None
    assert gpu is not None
    assert (host.bandwidth_out, gpu.bandwidth_out) == (NIC / 2, INSIDE)


def test_several_links_are_divided_among_the_groups_inside_a_unit() -> None:
    """Six NICs for three groups are two whole ones for each, and for four groups one and a half."""
    system = System("nics", (Level("host", 2, Link(NIC, NIC, num=6)), Level("gpu", 12, Link(INSIDE, INSIDE))))
    for inside, num, bandwidth in ((4, 2, NIC), (3, 1, 1.5 * NIC)):
        share = shared_system(system, placed_groups(((2, inside), (1, 12 // inside)), [0]))
        link = share.levels[0].link
        assert link is not None
        assert (link.num, link.bandwidth_out) == (num, bandwidth)


def test_groups_that_are_not_alike_or_of_a_system_with_holes_are_refused() -> None:
    system = two_levels(2, 4)
    with pytest.raises(TopologyError, match="not split over its levels in the same way"):
        shared_system(system, np.array([[0, 1], [2, 4]]))
    with pytest.raises(TopologyError, match="not split over its levels in the same way"):
        shared_system(system, np.array([[0, 1, 2, 4]]))
    holes = replace(system, missing=frozenset({(0, 3), (1, 3)}))
    with pytest.raises(TopologyError, match="missing units"):
        shared_system(holes, np.array([[0, 1, 3, 4]]))


def ring_of_four() -> System:
    edges = tuple(Edge(unit, (unit + 1) % 4, INSIDE) for unit in range(4))
    return System(
        "ring", (Level("host", 2, Link(NIC, NIC)), Level("gpu", 4, None, Fabric("mesh", edges=edges)))
    )


def test_neighbours_in_a_mesh_keep_their_own_links_and_others_a_part_of_all() -> None:
    near = shared_system(ring_of_four(), placed_groups(((2, 1), (1, 2), (1, 2)), [2]))
    assert [(edge.first, edge.second) for edge in near.levels[1].fabric.edges] == [(0, 1)]
    far = shared_system(ring_of_four(), placed_groups(((2, 1), (1, 2), (1, 2)), [1]))
    assert far.levels[1].link == Link(INSIDE, INSIDE)
    assert not far.levels[1].fabric.edges


def coordinates(device: int, matrix: Matrix) -> tuple[int, ...]:
    """The axis coordinates of a device, digit by digit from the innermost level and the last axis."""
    found, weight = [0] * len(matrix), [1] * len(matrix)
    for level in reversed(range(len(matrix[0]))):
        for axis in reversed(range(len(matrix))):
            device, digit = divmod(device, matrix[axis][level])
            found[axis] += digit * weight[axis]
            weight[axis] *= matrix[axis][level]
    return tuple(found)


@given(st.data())
def test_groups_are_the_devices_with_the_same_other_coordinates(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    entries = st.tuples(*[st.integers(1, 3)] * shape[1])
    matrix = tuple(data.draw(st.lists(entries, min_size=shape[0], max_size=shape[0])))
    rows = data.draw(st.sets(st.integers(0, shape[0] - 1), min_size=1))
    found: dict[tuple[int, ...], list[int]] = {}
    for device in range(int(np.prod(matrix))):
        of_others = (one for axis, one in enumerate(coordinates(device, matrix)) if axis not in rows)
        found.setdefault(tuple(of_others), []).append(device)
    groups = placed_groups(matrix, sorted(rows))
    assert sorted(groups.tolist()) == sorted(found.values())
    counts = [prod(column) for column in zip(*matrix, strict=True)]
    levels = [Level(f"level{number}", count, Link(NIC, NIC)) for number, count in enumerate(counts)]
    own = tuple(prod(matrix[row][level] for row in rows) for level in range(len(counts)))
    assert regular_factors(System("drawn", tuple(levels)), groups) == own


@pytest.mark.parametrize("rows", [[0], [0, 1], [1, 2], [0, 1, 2]])
def test_every_device_gets_the_sum_over_its_reduction_axes(rows: list[int]) -> None:
    """Three axes on two levels, factors of one level merged; sums compared by coordinates."""
    matrix: Matrix = ((2, 1), (1, 2), (1, 3))
    groups = placed_groups(matrix, rows)
    found = regular_factors(two_levels(2, 6), groups)
    assert found is not None
    factors = tuple(factor for factor in found if factor > 1)
    data = np.random.default_rng(1).integers(-99, 99, (12, 12))
    for program in programs_up_to(table_of(len(factors)), 3):
        for group in groups.tolist():
            held = execute(program, factors, data[group][:, : len(group)])
            for own in held:
                assert [int(own[row]) for row in sorted(own)] == data[group].sum(axis=0)[
                    : len(group)
                ].tolist()
