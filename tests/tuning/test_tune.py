"""Tuning: the fastest plan is chosen, the default stays unless beaten, and exports say the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from hemiola.collectives import KINDS, Collective, CollectiveKind
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.errors import FormatError, TopologyError
from hemiola.ir.formats import read_plan
from hemiola.ir.plan import Plan, Protocol
from hemiola.ir.verify import verify
from hemiola.runtime.plans.directory_plans import DirectoryPlans
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.simulator.runtimes.hemiola import HEMIOLA, MESSAGES, HemiolaRuntime
from hemiola.topology.shapes import load_shape
from hemiola.topology.system import Level, Link, ProtocolCosts, System
from hemiola.tuning import plan_search
from hemiola.tuning.candidate import SYNTHESIZED
from hemiola.tuning.candidate_space import MOST_INSTANCES, CandidateSpace
from hemiola.tuning.exports.nccl_tuner import nccl_csv
from hemiola.tuning.exports.plan_folder import write_plans
from hemiola.tuning.plan_search import PlanSearch
from hemiola.tuning.tune import STOCK, TIE, Tuning, tune

ALLREDUCE, ALLGATHER = CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER
SIZES = [1 << exponent for exponent in range(10, 21, 2)]
TWO_HOSTS = load_shape("2x4")
ONE_HOST = System("four", (Level("device", 4, Link(10e9, 10e9, 1e-6)),))
MOVING = sorted(set(KINDS) - {"custom"})

Cost = Callable[[Plan, float], float]
"""The seconds of a plan at a size."""


def of_all(kind: str, system: System) -> CollectiveRequest:
    """A collective of all devices; a sendrecv goes to the last of them."""
    return CollectiveRequest.of_system(CollectiveKind(kind), system, peer=system.num_ranks - 1)


@pytest.fixture
def timed_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Cost], None]:
    """Let a given cost stand for all replays."""

    def change(cost: Cost) -> None:
        def seconds(
            plan: Plan, num_bytes: float, request: CollectiveRequest, runtime: HemiolaRuntime = HEMIOLA
        ) -> float:
            return cost(plan, num_bytes)

        monkeypatch.setattr(plan_search, "replay_seconds", seconds)
        monkeypatch.setattr(plan_search, "searched_seconds", seconds)
        monkeypatch.setattr(plan_search, "busiest_link", lambda *arguments: (0.0, 0))

    return change


def favouring(name: str, from_bytes: int = 0, *, gain: float = 2.0) -> Cost:
    """A cost by which all plans are alike, but for one algorithm that is faster from a size on."""

    def cost(plan: Plan, num_bytes: float) -> float:
        return 1.0 / gain if plan.name == name and num_bytes >= from_bytes else 1.0

    return cost


@pytest.mark.parametrize("kind", MOVING)
@pytest.mark.parametrize("system", [TWO_HOSTS, ONE_HOST, load_shape("uneven-4x2")], ids=lambda one: one.name)
def test_no_choice_is_slower_than_the_default_or_any_candidate_or_faster_than_the_bound(
    kind: str, system: System
) -> None:
    request = of_all(kind, system)
    tuning = tune(request, [4096, 1 << 20])
    search = PlanSearch(CandidateSpace(request))
    for size in tuning.sizes:
        assert size.chosen.seconds <= size.default.seconds
        assert size.chosen.seconds >= size.bound.seconds * (1 - 1e-9)
        assert size.bound == lower_bound(request.collective, size.num_bytes, system)
        assert size.chosen.candidate is None or size.chosen.seconds < size.default.seconds
        # The printed time is the replay of the chosen plan, which every verb would print.
        assert size.chosen.seconds == replay_seconds(size.chosen.plan, size.num_bytes, request)
        tried = [search.replayed(candidate, size.num_bytes) for candidate in search.space.candidates]
        assert size.chosen.seconds <= min(one.seconds for one in tried) / (1 - TIE)


@pytest.mark.parametrize("sizes", [SIZES, [4096], [3000, 5000, 1 << 20]])
def test_windows_cover_the_sizes_without_gaps(sizes: list[int]) -> None:
    tuning = tune(of_all("allreduce", ONE_HOST), sizes)
    windows = tuning.windows
    assert (windows[0].min_bytes, windows[-1].max_bytes) == (sizes[0], sizes[-1])
    for before, after in pairwise(windows):
        assert after.min_bytes == before.max_bytes + 1
    assert [size.num_bytes for size in tuning.sizes] == sizes
    for window in windows:
        assert all(window.min_bytes <= size.num_bytes <= window.max_bytes for size in window.sizes)
        assert {tuning.window(size.num_bytes).min_bytes for size in window.sizes} == {window.min_bytes}
        assert tuning.plan(window.min_bytes) is tuning.plan(window.max_bytes) is window.chosen.plan
    assert tuning.window(1) is windows[0]
    assert tuning.window(1 << 60) is windows[-1]


def test_the_same_is_found_every_time() -> None:
    found = [tune(of_all("allreduce", TWO_HOSTS), SIZES[::2]).to_json() for _ in range(2)]
    assert json.dumps(found[0]) == json.dumps(found[1])


def test_the_winner_by_the_given_cost_is_chosen_from_where_it_wins(timed_by: Callable[[Cost], None]) -> None:
    timed_by(favouring("allreduce_double_binary_tree", 1 << 14))
    first, *rest = tune(of_all("allreduce", ONE_HOST), SIZES).windows
    # What the runtime does by itself may be several plans, each a window of its own.
    own = [first, *rest[:-1]]
    second = rest[-1]
    assert all(window.chosen.candidate is None for window in own)
    assert all("runtime's own choice" in window.why for window in own)
    assert second.chosen.candidate is not None
    assert second.chosen.candidate.algorithm == "allreduce_double_binary_tree"
    assert (own[-1].max_bytes, second.min_bytes) == ((1 << 14) - 1, 1 << 14)
    assert "2.00 times as fast" in second.why


def test_a_gain_that_is_none_is_not_worth_a_change(timed_by: Callable[[Cost], None]) -> None:
    timed_by(favouring("allreduce_double_binary_tree", gain=1 + TIE / 2))
    assert all(
        window.chosen.candidate is None for window in tune(of_all("allreduce", ONE_HOST), SIZES).windows
    )
    timed_by(favouring("allreduce_double_binary_tree", gain=1 + 2 * TIE))
    (window,) = tune(of_all("allreduce", ONE_HOST), SIZES).windows
    assert window.chosen.plan.name == "allreduce_double_binary_tree"


def test_the_plan_of_the_size_before_stays_where_the_best_is_not_faster(
    timed_by: Callable[[Cost], None],
) -> None:
    def cost(plan: Plan, num_bytes: float) -> float:
        better = plan.name == "allreduce_allpairs" and num_bytes > SIZES[0]
        return 0.5 * (1 - TIE / 2) if better else 0.5 if plan.name == "allreduce_double_binary_tree" else 1.0

    timed_by(cost)
    (window,) = tune(of_all("allreduce", ONE_HOST), SIZES[:2]).windows
    assert window.chosen.plan.name == "allreduce_double_binary_tree"


def test_more_instances_are_taken_as_long_as_they_help(timed_by: Callable[[Cost], None]) -> None:
    def cost(plan: Plan, num_bytes: float) -> float:
        return 0.99 / min(plan.num_channels, 8) if plan.name == "allreduce_ring" else 1.0

    timed_by(cost)
    (window,) = tune(of_all("allreduce", ONE_HOST), [1 << 20]).windows
    assert window.chosen.candidate is not None
    assert window.chosen.candidate.instances == 8 <= MOST_INSTANCES
    assert window.chosen.plan.num_channels == 8


def test_messages_are_named_where_they_help(timed_by: Callable[[Cost], None]) -> None:
    def cost(plan: Plan, num_bytes: float) -> float:
        return 0.5 if plan.message_bytes == MESSAGES[1] else 1.0

    timed_by(cost)
    (window,) = tune(of_all("allreduce", ONE_HOST), [1 << 22]).windows
    assert window.chosen.plan.message_bytes == MESSAGES[1]
    assert "messages=64KiB" in window.chosen.name
    assert window.to_json()["message_bytes"] == MESSAGES[1]


def test_no_message_is_larger_than_a_slot() -> None:
    small = HemiolaRuntime(slot_bytes=64 << 10)
    tuning = tune(of_all("allreduce", TWO_HOSTS), [1 << 22], runtime=small)
    assert all(size.chosen.plan.message_bytes <= 64 << 10 for size in tuning.sizes)


def test_protocols_are_those_of_the_system() -> None:
    quick = ProtocolCosts(efficiency=0.2, step_seconds=0.0)
    wide = ProtocolCosts(efficiency=1.0, step_seconds=50e-6)
    system = replace(ONE_HOST, protocols={"Simple": wide, "LL": quick, "other": ProtocolCosts()})
    request = of_all("allgather", system)
    assert set(CandidateSpace(request).protocols) == {Protocol.SIMPLE, Protocol.LL}
    assert CandidateSpace(of_all("allgather", ONE_HOST)).protocols == [Protocol.SIMPLE]
    windows = tune(request, [1 << 10, 1 << 28]).windows
    assert windows[0].chosen.plan.protocol == Protocol.LL
    assert windows[-1].chosen.plan.protocol == Protocol.SIMPLE


@pytest.mark.parametrize("kind", ["allreduce", "alltonext", "broadcast"])
def test_all_candidates_are_right(kind: str) -> None:
    space = CandidateSpace(of_all(kind, TWO_HOSTS))
    for candidate in space.candidates:
        ways = [candidate.with_(instances=2)] if space.can_have_instances(candidate) else []
        for one in (candidate, *ways):
            assert verify(space.plan(one), slots=2).ok, one


def test_reductions_have_synthesized_candidates_and_others_do_not() -> None:
    for kind, has in (
        ("allreduce", True),
        ("reducescatter", True),
        ("alltoall", False),
        ("alltonext", False),
    ):
        found = {one.algorithm for one in CandidateSpace(of_all(kind, TWO_HOSTS)).candidates}
        assert (SYNTHESIZED in found) == has, kind
        assert any(name.startswith(f"{kind}_") for name in found)


def test_a_large_system_leaves_out_what_is_too_large_to_compile() -> None:
    system = System("large", (Level("host", 128, Link(1e9, 1e9)), Level("device", 8, Link(1e9, 1e9))))
    names = {candidate.algorithm for candidate in CandidateSpace(of_all("allreduce", system)).candidates}
    assert "allreduce_ring" not in names
    assert "allreduce_hierarchical" in names


def test_all_groups_of_a_placement_run_at_once() -> None:
    """Two groups that share the NICs of two hosts take longer than one of them alone."""
    groups = [[0, 1, 4, 5], [2, 3, 6, 7]]
    times = []
    for own in (groups, groups[:1]):
        request = CollectiveRequest.of_groups(ALLREDUCE, TWO_HOSTS, own)
        (size,) = tune(request, [1 << 20]).sizes
        assert size.chosen.seconds == replay_seconds(size.chosen.plan, 1 << 20, request)
        assert size.bound == lower_bound(request.collective, 1 << 20, TWO_HOSTS, groups=own)
        times.append(size.chosen.seconds)
    assert times[0] > 1.5 * times[1]


def test_one_device_has_nothing_to_tune() -> None:
    alone = System("alone", (Level("device", 1, Link(1e9, 1e9)),))
    with pytest.raises(TopologyError, match="nothing to tune"):
        tune(of_all("allreduce", alone), SIZES)


def test_progress_goes_on_and_ends() -> None:
    heard: list[tuple[int, int]] = []
    tune(of_all("alltonext", ONE_HOST), SIZES, progress=lambda done, total: heard.append((done, total)))
    assert [done for done, _ in heard] == list(range(len(heard)))
    assert {total for _, total in heard} == {len(heard)}


@pytest.mark.parametrize(
    ("kind", "name"),
    [("allreduce", "allreduce_double_binary_tree"), ("allgather", "allgather_recursive_doubling")],
)
def test_the_runtime_takes_the_plans_that_were_written(
    tmp_path: Path, timed_by: Callable[[Cost], None], kind: str, name: str
) -> None:
    timed_by(favouring(name, 1 << 14))
    files = write_plans(tune(of_all(kind, ONE_HOST), SIZES), tmp_path / "plans")
    assert len(files) == 2
    source = DirectoryPlans(tmp_path / "plans")

    def request(num_bytes: int, in_place: bool) -> PlanRequest:
        return PlanRequest(CollectiveKind(kind), 4, (0, 0, 0, 0), num_bytes, in_place)

    for in_place in (False, True):
        for num_bytes in (1 << 14, (1 << 14) + 4, 1 << 18, SIZES[-1]):
            chosen = source.explain(request(num_bytes, in_place)).chosen
            assert chosen is not None
            assert chosen.plan.name == name
            assert verify(chosen.plan, slots=2, collective=replace_chunks(chosen.plan, in_place)).ok
        for num_bytes in ((1 << 14) - 4, SIZES[-1] + 4):
            assert source.explain(request(num_bytes, in_place)).chosen is None


def replace_chunks(plan: Plan, in_place: bool) -> Collective:
    """What was asked for, with the chunks of the plan."""
    return Collective(plan.collective.kind, 4, plan.collective.chunks, in_place)


@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reducescatter", "alltonext", "broadcast"])
def test_written_plans_are_proven_and_keep_window_and_messages(tmp_path: Path, kind: str) -> None:
    tuning = tune(of_all(kind, load_shape("rails-2x4")), SIZES)
    files = write_plans(tuning, tmp_path)
    kept = [window for window in tuning.windows if window.chosen.candidate is not None]
    forms = 2 if CollectiveKind(kind).facts.can_be_in_place else 1
    assert len(files) == forms * len(kept)
    for number, file in enumerate(files):
        window, plan = kept[number // forms], read_plan(str(file))
        assert (plan.min_bytes, plan.max_bytes) == (window.min_bytes, window.max_bytes)
        assert plan.message_bytes == window.chosen.plan.message_bytes
        assert plan.protocol == window.chosen.plan.protocol
        assert verify(plan, slots=2).ok
    source, hosts = DirectoryPlans(tmp_path), (0,) * 4 + (1,) * 4
    for window in tuning.windows:
        for num_bytes in (window.min_bytes, window.max_bytes):
            asked = PlanRequest(CollectiveKind(kind), 8, hosts, num_bytes, in_place=False)
            chosen = source.explain(asked).chosen if files else None
            assert (chosen is not None) == (window.chosen.candidate is not None)
            assert chosen is None or chosen.plan.message_bytes == window.chosen.plan.message_bytes


def test_plans_are_not_mixed_with_older_ones(tmp_path: Path, timed_by: Callable[[Cost], None]) -> None:
    timed_by(favouring("allreduce_double_binary_tree"))
    tuning = tune(of_all("allreduce", ONE_HOST), SIZES)
    first = write_plans(tuning, tmp_path)
    assert read_plan(str(first[0])).max_bytes == SIZES[-1]
    with pytest.raises(FormatError, match="has plans for allreduce already"):
        write_plans(tuning, tmp_path)
    with pytest.raises(FormatError, match="cannot be made"):
        write_plans(tuning, first[0])


def test_rows_for_nccl(timed_by: Callable[[Cost], None]) -> None:
    def cost(plan: Plan, num_bytes: float) -> float:
        best = "allreduce_ring" if num_bytes < 1 << 14 else "allreduce_double_binary_tree"
        return 0.5 if plan.name == best else 0.7 if plan.name in STOCK else 0.1

    timed_by(cost)
    assert nccl_csv(tune(of_all("allreduce", ONE_HOST), SIZES)) == [
        "allreduce,1024,16383,ring,simple,-1,1,4",
        "allreduce,16384,1048576,tree,simple,-1,1,4",
    ]


def test_sizes_for_nccl_are_those_of_the_collective(timed_by: Callable[[Cost], None]) -> None:
    timed_by(favouring("allgather_ring"))
    tuning = tune(of_all("allgather", ONE_HOST), SIZES)
    assert nccl_csv(tuning) == ["allgather,1024,1048576,ring,simple,-1,1,4"]
    assert nccl_csv(replace_request(tuning, of_all("alltoall", ONE_HOST))) == []


def replace_request(tuning: Tuning, request: CollectiveRequest) -> Tuning:
    """The same windows for a collective that NCCL's tuner does not know."""
    return replace(tuning, request=request)


def test_hosts_and_ranks_for_nccl_are_those_of_a_group(timed_by: Callable[[Cost], None]) -> None:
    timed_by(favouring("allreduce_ring"))
    request = CollectiveRequest.of_groups(ALLREDUCE, TWO_HOSTS, [[0, 1, 4, 5], [2, 3, 6, 7]])
    (line,) = nccl_csv(tune(request, [4096]))
    assert line == "allreduce,4096,4096,ring,simple,-1,2,4"
