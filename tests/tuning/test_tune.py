"""Tuning: what wins by the given cost is chosen, the default stays unless clearly beaten, and exports say the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from hemiola.collectives import KINDS
from hemiola.errors import FormatError, TopologyError
from hemiola.ir.formats import read_plan
from hemiola.ir.plan import Plan, Protocol
from hemiola.ir.verify import verify
from hemiola.runtime.plans.directory_plans import DirectoryPlans
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.simulator.bounds import lower_bound
from hemiola.topology.shapes import load_shape
from hemiola.topology.system import Level, Link, ProtocolCosts, System
from hemiola.tuning.candidates import MOST_INSTANCES, Workshop
from hemiola.tuning.exports import nccl_csv, write_nccl_csv, write_plans
from hemiola.tuning.tune import CLEARLY, STOCK, Cost, Window, tune

SIZES = [1 << exponent for exponent in range(10, 21, 2)]
TWO_HOSTS = load_shape("2x4")
ONE_HOST = System("four", (Level("device", 4, Link(10e9, 10e9, 1e-6)),))


def favouring(name: str, from_bytes: int = 0, *, gain: float = 2.0) -> Cost:
    """A cost by which all plans are alike, but for one algorithm that is faster from a size on."""

    def cost(plan: Plan, num_bytes: int, tile: int) -> float:
        return 1.0 / gain if plan.name == name and num_bytes >= from_bytes else 1.0

    return cost


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"custom"}))
@pytest.mark.parametrize("system", [TWO_HOSTS, ONE_HOST, load_shape("uneven-4x2")], ids=lambda one: one.name)
def test_no_choice_is_slower_than_the_default_or_faster_than_the_bound(kind: str, system: System) -> None:
    workshop = Workshop(kind, system, peer=system.num_ranks - 1)
    windows = tune(workshop, [4096, 1 << 20])
    for row in (row for window in windows for row in window.rows):
        assert row.chosen.seconds <= row.default.seconds
        assert row.chosen.seconds >= row.bound.seconds * (1 - 1e-9)
        assert row.bound == lower_bound(workshop.collective, row.num_bytes, system)
        assert row.chosen.candidate is None or row.chosen.seconds < row.default.seconds * (1 - CLEARLY / 2)


def test_windows_cover_the_sizes_without_gaps() -> None:
    windows = tune(Workshop("allreduce", ONE_HOST), SIZES)
    assert (windows[0].min_bytes, windows[-1].max_bytes) == (SIZES[0], SIZES[-1])
    for before, after in pairwise(windows):
        assert after.min_bytes == before.max_bytes + 1
    assert [row.num_bytes for window in windows for row in window.rows] == SIZES


def test_the_winner_by_the_given_cost_is_chosen_from_where_it_wins() -> None:
    cost = favouring("allreduce_double_binary_tree", 1 << 14)
    first, second = tune(Workshop("allreduce", ONE_HOST), SIZES, cost)
    assert first.chosen.candidate is None
    assert "runtime's own choice" in first.why
    assert second.chosen.candidate is not None
    assert second.chosen.candidate.algorithm == "allreduce_double_binary_tree"
    assert (first.max_bytes, second.min_bytes) == ((1 << 14) - 1, 1 << 14)
    assert "2.00 times as fast" in second.why


def test_a_small_gain_is_not_worth_a_change() -> None:
    cost = favouring("allreduce_double_binary_tree", gain=1.01)
    windows = tune(Workshop("allreduce", ONE_HOST), SIZES, cost)
    assert all(window.chosen.candidate is None for window in windows)


def test_more_instances_are_taken_as_long_as_they_help() -> None:
    def cost(plan: Plan, num_bytes: int, tile: int) -> float:
        return 1.0 / min(plan.num_channels, 8) if plan.name == "allreduce_ring" else 1.0

    (window,) = tune(Workshop("allreduce", ONE_HOST), [1 << 20], cost)
    assert window.chosen.candidate is not None
    assert window.chosen.candidate.instances == 8 <= MOST_INSTANCES
    assert window.chosen.plan.num_channels == 8


def test_tiles_are_named_where_they_help() -> None:
    def cost(plan: Plan, num_bytes: int, tile: int) -> float:
        return 0.5 if tile == 64 << 10 else 1.0

    (window,) = tune(Workshop("allreduce", ONE_HOST), [1 << 20], cost)
    assert window.tile_bytes == 64 << 10
    assert "tiles of 64KiB" in window.why


def test_protocols_are_those_of_the_system() -> None:
    quick = ProtocolCosts(efficiency=0.2, step_seconds=0.0)
    wide = ProtocolCosts(efficiency=1.0, step_seconds=50e-6)
    system = replace(ONE_HOST, protocols={"Simple": wide, "LL": quick, "other": ProtocolCosts()})
    workshop = Workshop("allgather", system)
    assert {one.protocol for one in workshop.candidates()} == {Protocol.SIMPLE, Protocol.LL}
    windows = tune(workshop, [1 << 10, 1 << 26])
    assert windows[0].chosen.plan.protocol == Protocol.LL
    assert windows[-1].chosen.plan.protocol == Protocol.SIMPLE


def test_all_candidates_are_right() -> None:
    for kind in ("allreduce", "alltonext", "broadcast"):
        workshop = Workshop(kind, TWO_HOSTS)
        for candidate in workshop.candidates():
            more = workshop.doubled(candidate)
            for one in (candidate, more) if more is not None else (candidate,):
                assert verify(workshop.plan(one), slots=2).ok, one


def test_a_large_system_leaves_out_what_is_too_large_to_compile() -> None:
    system = System("large", (Level("host", 128, Link(1e9, 1e9)), Level("device", 8, Link(1e9, 1e9))))
    names = {candidate.algorithm for candidate in Workshop("allreduce", system).candidates()}
    assert "allreduce_ring" not in names
    assert "allreduce_hierarchical" in names


def test_one_device_has_nothing_to_tune() -> None:
    alone = System("alone", (Level("device", 1, Link(1e9, 1e9)),))
    with pytest.raises(TopologyError, match="nothing to tune"):
        tune(Workshop("allreduce", alone), SIZES)


def tuned(kind: str, name: str, from_bytes: int) -> tuple[Workshop, list[Window]]:
    workshop = Workshop(kind, ONE_HOST)
    return workshop, tune(workshop, SIZES, favouring(name, from_bytes))


@pytest.mark.parametrize(
    ("kind", "name"),
    [("allreduce", "allreduce_double_binary_tree"), ("allgather", "allgather_recursive_doubling")],
)
def test_the_runtime_takes_the_plans_that_were_written(tmp_path: Path, kind: str, name: str) -> None:
    workshop, windows = tuned(kind, name, 1 << 14)
    files = write_plans(windows, workshop, tmp_path / "plans")
    assert len(files) == 2
    source = DirectoryPlans(tmp_path / "plans")

    def request(num_bytes: int, in_place: bool) -> PlanRequest:
        return PlanRequest(kind, 4, (0, 0, 0, 0), num_bytes, in_place)

    for in_place in (False, True):
        for num_bytes in (1 << 14, (1 << 14) + 4, 1 << 18, SIZES[-1]):
            chosen = source.explain(request(num_bytes, in_place)).chosen
            assert chosen is not None
            assert chosen.plan.name == name
        for num_bytes in ((1 << 14) - 4, SIZES[-1] + 4):
            assert source.explain(request(num_bytes, in_place)).chosen is None


def test_plans_are_not_mixed_with_older_ones(tmp_path: Path) -> None:
    workshop, windows = tuned("allreduce", "allreduce_double_binary_tree", 0)
    first = write_plans(windows, workshop, tmp_path)
    assert read_plan(first[0]).max_bytes == SIZES[-1]
    with pytest.raises(FormatError, match="has plans for allreduce already"):
        write_plans(windows, workshop, tmp_path)
    with pytest.raises(FormatError, match="cannot be made"):
        write_plans(windows, workshop, first[0])


def test_rows_for_nccl() -> None:
    def cost(plan: Plan, num_bytes: int, tile: int) -> float:
        best = "allreduce_ring" if num_bytes < 1 << 14 else "allreduce_double_binary_tree"
        return 0.5 if plan.name == best else 0.7 if plan.name in STOCK else 0.1

    workshop = Workshop("allreduce", ONE_HOST)
    assert nccl_csv(tune(workshop, SIZES, cost), workshop) == [
        "allreduce,1024,16383,ring,simple,1,1,4",
        "allreduce,16384,1048576,tree,simple,1,1,4",
    ]


def test_sizes_for_nccl_are_those_of_the_larger_buffer() -> None:
    workshop, windows = tuned("allgather", "allgather_ring", 0)
    assert nccl_csv(windows, workshop) == ["allgather,4096,4194304,ring,simple,1,1,4"]
    assert nccl_csv([], Workshop("alltoall", ONE_HOST)) == []


def test_the_csv_keeps_other_collectives(tmp_path: Path) -> None:
    write_nccl_csv(["allreduce,1,2,ring,ll,1,1,4"], tmp_path)
    write_nccl_csv(["allgather,1,2,ring,ll,1,1,4"], tmp_path)
    path = write_nccl_csv(["allreduce,1,9,tree,ll,1,1,4"], tmp_path)
    assert path.read_text() == "allgather,1,2,ring,ll,1,1,4\nallreduce,1,9,tree,ll,1,1,4\n"
