"""Synthesis: what is chosen, what it is compared with, and where its times come from."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.estimates.shared_system import shared_system
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from hemiola.errors import ReductionError
from hemiola.ir.verify import verify
from hemiola.synthesis.costs import edge_costs
from hemiola.synthesis.estimate import estimate_programs
from hemiola.synthesis.search import paths_up_to
from hemiola.synthesis.state import REDUCTIONS
from hemiola.synthesis.synthesize import _closed_forms, synthesize
from hemiola.synthesis.table import table_of
from hemiola.topology.system import Level, Link, System
from hemiola.tuning.candidate_space import CandidateSpace
from hemiola.tuning.plan_search import PlanSearch
from plain_systems import plain_system as load_system
from synthesis.placed_groups import Matrix, placed_groups

ALLREDUCE = CollectiveKind.ALLREDUCE
THREE = System(
    "three levels",
    (
        Level("rack", 2, Link(1e9, 1e9, 5e-6)),
        Level("host", 3, Link(10e9, 10e9, 2e-6)),
        Level("gpu", 4, Link(100e9, 100e9, 1e-6)),
    ),
)


def asked(name: str, matrix: Matrix, kind: CollectiveKind = ALLREDUCE) -> CollectiveRequest:
    """A collective over the first axis of a placement on a preset."""
    return CollectiveRequest.of_groups(kind, load_system(name), placed_groups(matrix, [0]))


@pytest.mark.parametrize("num_bytes", [1 << 10, 1 << 20, 1 << 30])
def test_the_first_is_the_best_of_all_pipelined(num_bytes: int) -> None:
    request = asked("dgx-a100:4", ((4, 2), (1, 4)))
    table = table_of(2)
    costs = edge_costs(table, shared_system(request.system, request.table), num_bytes)
    best = min(costs.pipelined(path) for path in paths_up_to(table, 5))
    assert estimate_programs(request, num_bytes, 3)[0].seconds == pytest.approx(best)
    first = synthesize(request, num_bytes, top=3, replay=False).programs[0]
    assert first.seconds == pytest.approx(best)
    assert first.source is TimeSource.ESTIMATED


def test_the_first_is_the_best_of_all_pipelined_over_three_levels() -> None:
    table = table_of(3)
    costs = edge_costs(table, THREE, 1 << 26)
    best = min(costs.pipelined(path) for path in paths_up_to(table, 10))
    request = CollectiveRequest.of_system(ALLREDUCE, THREE)
    assert synthesize(request, 1 << 26, top=1, replay=False).programs[0].seconds == pytest.approx(best)


def test_estimates_are_ordered_and_as_many_as_asked_for() -> None:
    request = CollectiveRequest.of_system(ALLREDUCE, THREE)
    found = estimate_programs(request, 1 << 26, 7)
    assert len({str(one.program) for one in found}) == len(found) == 7
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)
    assert all(one.seconds <= one.blocking_seconds * (1 + 1e-12) for one in found)


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_closed_forms_do_not_beat_the_bound(kind: CollectiveKind) -> None:
    result = synthesize(CollectiveRequest.of_system(kind, THREE), 1 << 28, replay=False)
    times = [*(one.seconds for one in result.programs), *(one.seconds for one in result.baselines)]
    assert min(times) >= result.bound.seconds * (1 - 1e-9)
    assert {one.source for one in result.baselines} == {TimeSource.ESTIMATED}


def test_replayed_programs_and_defaults_do_not_beat_the_bound() -> None:
    request = asked("dgx-a100:2", ((2, 2), (1, 4)))
    result = synthesize(request, 1 << 26, top=2)
    times = [one.seconds for one in result.programs]
    assert times == sorted(times)
    assert min([*times, *(one.seconds for one in result.baselines)]) >= result.bound.seconds * (1 - 1e-9)
    assert [one.source for one in result.programs] == [TimeSource.REPLAYED] * 2
    assert {one.source for one in result.baselines} == {TimeSource.REPLAYED}
    assert result.keeps_default == (result.programs[0].seconds >= result.baseline.seconds)
    flat = {one.name.split()[0] for one in result.baselines}
    assert {"allreduce_ring", "allreduce_double_binary_tree"} <= flat
    # The printed time is that of the plan with all groups at once, and the best default is one that users really have.
    assert times[0] == pytest.approx(replay_seconds(result.plan, 1 << 26, request))
    assert verify(result.plan, slots=2).ok
    own = PlanSearch(CandidateSpace(request)).default(1 << 26)
    assert result.baseline.seconds <= own.seconds * (1 + 1e-9)
    assert result.baseline.seconds == min(one.seconds for one in result.baselines)


def test_a_program_near_the_bound_says_so_and_others_say_why() -> None:
    request = asked("dgx-a100:4", ((4, 2), (1, 4)))
    near = synthesize(request, 1 << 30, top=1, replay=False)
    assert near.programs[0].seconds <= 1.05 * near.bound.seconds
    assert near.distance.endswith("times the bound.")
    assert "latency" in synthesize(request, 1 << 12, top=1, replay=False).distance
    switched = asked("gb200-nvl72:2", ((1, 24), (2, 3)))
    assert "add up what passes" in synthesize(switched, 1 << 26, top=1, replay=False).distance


def test_steps_that_overlap_come_within_five_percent_of_the_bound() -> None:
    """The inside of a host and its NICs are busy at the same time; in turn, steps take their sum."""
    result = synthesize(asked("dgx-a100:2", ((2, 8),)), 1 << 30, top=1)
    first = result.programs[0]
    assert result.bound.seconds <= first.seconds <= 1.05 * result.bound.seconds
    assert first.seconds < 0.7 * first.estimate.blocking_seconds
    assert not result.keeps_default
    assert first.replayed is not None
    assert verify(first.replayed.plan, slots=2).ok


NIC, NUM_NICS, HOSTS, INSIDE = 10e9, 4, 4, 8
SEVERAL_NICS = System(
    "several NICs",
    (Level("host", HOSTS, Link(NIC, NIC, num=NUM_NICS)), Level("gpu", INSIDE, Link(1e12, 1e12))),
)


@pytest.mark.parametrize("inside", [8, 4, 2])
def test_flat_rings_use_every_nic_of_a_host(inside: int) -> None:
    """By hand: k devices pass 2 (k - 1) / k S over each cut, and the groups inside a host share its four NICs.

    A ring alone would leave each host by one NIC; the baseline is cut into rings that leave by all of them.
    """
    num_bytes, groups = 1 << 30, INSIDE // inside
    matrix = ((HOSTS, inside), (1, groups))
    request = CollectiveRequest.of_groups(ALLREDUCE, SEVERAL_NICS, placed_groups(matrix, [0]))
    k = HOSTS * inside
    by_hand = 2 * (k - 1) / k * num_bytes / (NIC * NUM_NICS / groups)
    share = shared_system(request.system, request.table)
    (rings,) = [one for one in _closed_forms(share, ALLREDUCE, num_bytes) if "rings" in one.name]
    assert rings.seconds == pytest.approx(by_hand, rel=1e-9)
    result = synthesize(request, num_bytes, top=1, replay=False)
    assert next(one for one in result.baselines if "rings" in one.name) == rings


def test_more_nics_of_the_same_speed_together_change_no_baseline() -> None:
    """One NIC of 40 GB/s and four of 10 GB/s carry as much, so flat rings take as long."""
    host = SEVERAL_NICS.levels[0]
    one = replace(host, link=Link(NIC * NUM_NICS, NIC * NUM_NICS))
    machines = [SEVERAL_NICS, replace(SEVERAL_NICS, levels=(one, SEVERAL_NICS.levels[1]))]
    for kind in REDUCTIONS:
        times = [
            next(
                base.seconds
                for base in synthesize(
                    CollectiveRequest.of_system(kind, system), 1 << 30, replay=False
                ).baselines
                if "rings" in base.name
            )
            for system in machines
        ]
        assert times[0] == pytest.approx(times[1]), kind


def test_json_says_what_the_result_says() -> None:
    result = synthesize(asked("dgx-a100:2", ((2, 2), (1, 4))), 1 << 20, top=2, replay=False)
    fields = json.loads(json.dumps(result.to_json()))
    assert (fields["factors"], fields["num_groups"]) == ([2, 2], 4)
    assert (fields["collective"], fields["bytes"]) == ("allreduce", 1 << 20)
    assert [one["seconds"] for one in fields["programs"]] == [one.seconds for one in result.programs]
    assert {one["source"] for one in fields["programs"]} == {"estimated"}
    assert fields["programs"][0]["bound_seconds"] == result.bound.seconds
    assert fields["baselines"][0]["seconds"] == result.baseline.seconds


def test_what_has_no_programs_is_refused() -> None:
    system = load_system("2x4")
    whole = CollectiveRequest.of_system(ALLREDUCE, system)
    with pytest.raises(ReductionError, match="not for alltoall"):
        synthesize(CollectiveRequest.of_system(CollectiveKind.ALLTOALL, system), 1 << 20)
    with pytest.raises(ReductionError, match="one byte or more"):
        synthesize(whole, 0)
    with pytest.raises(ReductionError, match="nothing to reduce"):
        synthesize(CollectiveRequest(ALLREDUCE, system, ((0,), (1,))), 1 << 20)
    with pytest.raises(ReductionError, match="there is no plan"):
        _ = synthesize(whole, 1 << 20, replay=False).plan
