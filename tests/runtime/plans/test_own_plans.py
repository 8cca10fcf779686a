"""Plans of the user's own, from a folder: they run where they fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hand_made import block, step
from hemiola.collectives import AllReduce
from hemiola.errors import MismatchError, NoPlanError
from hemiola.ir.formats import write_plan
from hemiola.ir.plan import Plan
from hemiola.ir.targets import PLAN
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.launch import run_ranks
from hemiola.runtime.plans.directory_plans import DirectoryPlans
from hemiola.runtime.plans.plan_source import ChainedPlans, PlanSource, default_plans
from hemiola.runtime.settings import Settings
from mutations import plan_of
from runtime.worlds import TIMEOUT, call_and_meet, on_ranks, ones, raising


def slow_all_reduce() -> Plan:
    """Two ranks: rank 1 adds and sends back; nobody else would do it so."""
    return plan_of(
        AllReduce(2, 1, in_place=True),
        [
            block(0, step("s", (0, 0)), step("r", target=(0, 0)), to=1, source=1),
            block(1, step("rrcs", (0, 0), (0, 0)), to=0, source=0),
        ],
    )


def run_and_say(world: Communicator) -> tuple[str, list[float], str]:
    data = ones(world, 3)
    world.all_reduce(data)
    others = world.explain("allreduce", data.nbytes, in_place=True)
    assert others.chosen is not None
    return world.flight_record()[-1].description, data.tolist(), others.chosen.reason


def run_with_plans_by_rank(rank: int, store: Store, folder: str) -> str:
    plans: PlanSource = default_plans()
    if rank == 0:
        plans = ChainedPlans([DirectoryPlans(folder), plans])
    with Communicator(rank, 2, store=store, plans=plans, timeout=20) as world:
        with pytest.raises(MismatchError) as caught:
            call_and_meet(world, lambda _: world.all_reduce(np.ones(3)))
        return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_plan(slow_all_reduce(), tmp_path / "mine.plan", PLAN)
    return tmp_path


def test_the_plan_of_the_folder_is_the_one_that_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEMIOLA_PLANS", str(folder))
    for description, data, reason in on_ranks(2, run_and_say, kind="processes"):
        assert data == [3.0] * 3
        assert "mine.plan" in reason
        assert slow_all_reduce().name in description


def test_where_it_does_not_fit_the_library_runs(folder: Path) -> None:
    plans = ChainedPlans([DirectoryPlans(folder), default_plans()])

    def body(world: Communicator) -> str:
        data = ones(world)
        world.all_reduce(data, np.zeros(5))  # the plan of the folder is in place
        return world.flight_record()[-1].description

    assert all("allreduce_" in one for one in on_ranks(2, body, plans=plans))


def test_a_source_without_a_plan_says_so(folder: Path) -> None:
    def body(world: Communicator) -> None:
        raising(NoPlanError, "no plan for broadcast of 2 ranks", lambda: world.broadcast(np.ones(3)))

    on_ranks(2, body, plans=DirectoryPlans(folder))


def test_ranks_with_different_plans_find_out(folder: Path) -> None:
    for sentence in run_ranks(2, run_with_plans_by_rank, str(folder), timeout=TIMEOUT):
        assert "allreduce" in sentence


def three_messages_ahead() -> Plan:
    """Two ranks that both send three chunks before they receive one: right with three slots, and stuck with two."""
    sends = [step("s", (0, chunk)) for chunk in range(3)]
    adds = [step("rrc", (0, chunk), (0, chunk)) for chunk in range(3)]
    return plan_of(
        AllReduce(2, 3, in_place=True),
        [block(rank, *sends, *adds, to=1 - rank, source=1 - rank) for rank in range(2)],
    )


@pytest.mark.parametrize(("slots", "runs"), [(4, True), (2, False)])
def test_a_plan_of_the_folder_is_proven_for_the_slots_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: int, runs: bool
) -> None:
    write_plan(three_messages_ahead(), tmp_path / "ahead.plan", PLAN)
    monkeypatch.setenv("HEMIOLA_PLANS", str(tmp_path))
    for _, data, reason in on_ranks(2, run_and_say, kind="processes", settings=Settings(slots=slots)):
        assert data == [3.0] * 3
        assert ("ahead.plan" in reason) == runs
