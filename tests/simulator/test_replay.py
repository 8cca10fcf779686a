"""The replay: equal to the slow reference, to itself however it is done, and to what physics asks."""

from __future__ import annotations

from dataclasses import asdict, replace
from random import Random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from hand_made import everything
from hemiola.errors import LimitError, PlanError, TopologyError
from hemiola.ir.plan import Plan
from hemiola.simulator.replay import ReplayOptions, simulate, simulate_together
from hemiola.simulator.runtimes.hemiola import HemiolaRuntime
from hemiola.simulator.runtimes.runtime_model import EqualTiles, RuntimeModel
from hemiola.simulator.timeline import Load
from hemiola.topology.system import Compute, Fabric, Level, Link, ProtocolCosts, System
from simulator.reference import reference_seconds
from simulator.scenes import hosts, library_plan, small_plans, systems
from subjects import library_plans, random_plans

EXACT = 1e-9
WAYS = tuple(
    ReplayOptions(fold=fold, record=record, by_events=by_events)
    for fold in (True, False)
    for record in (True, False)
    for by_events in (True, False)
)


def tilings() -> st.SearchStrategy[RuntimeModel]:
    """One to four tiles, and at least the slots that the plans are proven for."""
    return st.builds(
        lambda slots, tiles: EqualTiles(tiles, slots=slots), st.integers(2, 4), st.integers(1, 4)
    )


@settings(max_examples=60, deadline=None)
@given(plan=small_plans(), system=systems(), runtime=tilings())
def test_every_way_equals_the_reference(plan: Plan, system: System, runtime: RuntimeModel) -> None:
    expected = reference_seconds([Load(plan, 1 << 20)], system, runtime)
    for options in WAYS:
        found = simulate(plan, system, 1 << 20, runtime=runtime, options=options)
        np.testing.assert_allclose(found.threadblock_seconds, expected, rtol=EXACT)
        assert found.seconds == pytest.approx(max(expected), rel=EXACT)


def test_every_kind_of_plan_equals_the_reference() -> None:
    """The library compiled in three ways, plans by hand, and random ones with all kinds of steps and waits."""
    wide = hosts(2, 2, nic=2e6, device=3e6)
    slow = replace(
        hosts(2, 3, nic=3e6, device=5e6, nics=2, latency=1e-3, protocol=ProtocolCosts(0.9, 0.01, 2e6, 0.02)),
        exceptions={(1,): Link(1e6, 2e6)},
        compute=Compute(add_bandwidth=4e6, host_copy_bandwidth=3e6),
    )
    plans = library_plans() | everything() | random_plans(30)
    for number, plan in enumerate(plans.values()):
        system, runtime = (wide, slow)[number % 2], EqualTiles(1 + number % 3)
        expected = reference_seconds([Load(plan, 1 << 16)], system, runtime)
        for options in (ReplayOptions(), ReplayOptions(fold=False, by_events=True)):
            found = simulate(plan, system, 1 << 16, runtime=runtime, options=options)
            np.testing.assert_allclose(found.threadblock_seconds, expected, rtol=EXACT)


@settings(max_examples=25, deadline=None)
@given(plans=st.tuples(small_plans(), small_plans()), system=systems(), seed=st.randoms(), runtime=tilings())
def test_plans_at_once_equal_the_reference(
    plans: tuple[Plan, Plan], system: System, seed: Random, runtime: RuntimeModel
) -> None:
    loads = [
        Load(plan, size, seed.sample(range(system.num_ranks), plan.num_ranks))
        for plan, size in zip(plans, (1 << 20, 1 << 18), strict=True)
    ]
    expected = reference_seconds(loads, system, runtime)
    found = simulate_together(loads, system, runtime=runtime)
    np.testing.assert_allclose(found.threadblock_seconds, expected, rtol=EXACT)
    assert found.load_seconds(0) == pytest.approx(max(expected[: len(plans[0].threadblocks)]), rel=EXACT)


@settings(max_examples=40, deadline=None)
@given(plan=small_plans(), system=systems(), factor=st.sampled_from([0.25, 3.0, 1e3]))
def test_faster_links_and_shorter_latencies_give_shorter_times(
    plan: Plan, system: System, factor: float
) -> None:
    before = simulate(plan, system, 1 << 20, runtime=EqualTiles(3)).seconds
    after = simulate(plan, _faster(system, factor), 1 << 20, runtime=EqualTiles(3)).seconds
    assert after == pytest.approx(before / factor, rel=EXACT)


@settings(max_examples=40, deadline=None)
@given(plan=small_plans(), system=systems(), factor=st.sampled_from([0.5, 3.0, 1000.0]))
def test_time_is_linear_in_bytes_without_latency(plan: Plan, system: System, factor: float) -> None:
    system = _without_latency(system)
    before = simulate(plan, system, 1 << 20, runtime=EqualTiles(3)).seconds
    after = simulate(plan, system, (1 << 20) * factor, runtime=EqualTiles(3)).seconds
    assert after == pytest.approx(before * factor, rel=EXACT)


@settings(max_examples=40, deadline=None)
@given(
    plan=st.sampled_from(["allreduce_ring", "allgather_ring", "reducescatter_ring"]).map(
        lambda name: library_plan(name, "ranks=4")
    ),
    slow=st.integers(0, 3),
    part=st.sampled_from([0.1, 0.5, 1.0]),
    more=st.sampled_from([1.0, 1.01, 2.0]),
)
def test_more_bytes_or_less_bandwidth_is_never_faster_where_no_link_is_shared(
    plan: Plan, slow: int, part: float, more: float
) -> None:
    """Where no link is shared time is a sum of maxima of times that only grow."""
    system = hosts(4, 1, latency=1e-5)
    usual = system.levels[0].link
    assert usual is not None
    worse = replace(system, exceptions={(slow,): usual.scaled(part)})
    before = simulate(plan, system, 1 << 20, runtime=EqualTiles(4))
    after = simulate(plan, worse, (1 << 20) * more, runtime=EqualTiles(4))
    assert not before.by_events
    assert not after.by_events
    assert after.seconds >= before.seconds * (1 - EXACT)
    if part < 1 or more > 1:
        assert after.seconds > before.seconds


@settings(max_examples=30, deadline=None)
@given(plan=small_plans(), host=st.permutations(range(4)), local=st.permutations(range(2)))
def test_renaming_symmetric_devices_changes_nothing(plan: Plan, host: list[int], local: list[int]) -> None:
    system = hosts(4, 2, latency=1e-5, compute=Compute(host_add_bandwidth=3e9))
    renamed = [2 * host[device // 2] + local[device % 2] for device in range(plan.num_ranks)]
    before, after = (
        simulate(plan, system, 1 << 20, devices=devices, runtime=EqualTiles(3)) for devices in (None, renamed)
    )
    assert after.seconds == pytest.approx(before.seconds, rel=EXACT)
    np.testing.assert_allclose(after.rank_seconds(), before.rank_seconds(), rtol=EXACT)


@settings(max_examples=30, deadline=None)
@given(plans=st.tuples(small_plans(), small_plans()), sizes=st.tuples(*[st.integers(1, 1 << 20)] * 2))
def test_plans_on_disjoint_links_do_not_disturb_each_other(
    plans: tuple[Plan, Plan], sizes: tuple[int, int]
) -> None:
    system = hosts(8, 2, latency=1e-5, compute=Compute(copy_bandwidth=5e9))
    places = ([2 * k for k in range(8)], [2 * k + 1 for k in range(8)])
    system = replace(
        system, levels=(replace(system.levels[0], link=Link(1e9, 1e9, 1e-5, 2)), system.levels[1])
    )
    loads = [
        Load(plan, size, place[: plan.num_ranks])
        for plan, size, place in zip(plans, sizes, places, strict=True)
    ]
    together = simulate_together(loads, system)
    for number, load in enumerate(loads):
        assert load.devices is not None
        alone = simulate(load.plan, system, load.num_bytes, devices=load.devices)
        np.testing.assert_allclose(together.rank_seconds(number), alone.rank_seconds(), rtol=EXACT)


def test_plans_that_meet_do_disturb_each_other() -> None:
    plan = library_plan("allreduce_ring", "ranks=4")
    system = hosts(4, 2)
    loads = [Load(plan, 1 << 20, [2 * k + side for k in range(4)]) for side in (0, 1)]
    alone = simulate(plan, system, 1 << 20, devices=loads[0].devices).seconds
    assert simulate_together(loads, system).seconds == pytest.approx(2 * alone, rel=0.01)


def test_more_bandwidth_can_be_slower_where_links_are_shared() -> None:
    """A known case: a flow that ends sooner lets another begin sooner, which takes from one that others wait for."""
    plan = library_plan("allreduce_double_binary_tree", "ranks=4 chunks=2")
    system = hosts(4, 2, nic=4e6, device=2e6)
    better = replace(system, exceptions={(1, 0): Link(3e6, 3e6)})
    runtime = EqualTiles(1, slots=2)
    before, after = (simulate(plan, found, 1e6, runtime=runtime).seconds for found in (system, better))
    assert after / before == pytest.approx(1.125)
    for found, seconds in ((system, before), (better, after)):
        assert max(reference_seconds([Load(plan, 1e6)], found, runtime)) == pytest.approx(seconds, rel=EXACT)


def test_more_bytes_can_be_faster_where_they_are_cut_otherwise() -> None:
    """A known case: what does not divide by the chunks runs as one more tile, with its latencies."""
    plan, system = library_plan("allreduce_ring", "ranks=4"), hosts(4, 1, latency=1e-3)
    assert simulate(plan, system, (1 << 19) + 16).seconds < simulate(plan, system, (1 << 19) + 4).seconds


def _faster(system: System, factor: float) -> System:
    def link(old: Link | None) -> Link | None:
        return None if old is None else replace(old.scaled(factor), latency=old.latency / factor)

    levels = tuple(
        Level(
            level.name,
            level.count,
            link(level.link),
            replace(
                level.fabric,
                bandwidth=level.fabric.bandwidth * factor,
                edges=tuple(
                    replace(edge, bandwidth=edge.bandwidth * factor, latency=edge.latency / factor)
                    for edge in level.fabric.edges
                ),
            ),
        )
        for level in system.levels
    )
    counts = {"host_cores", "threadblocks"}
    rates = {name: rate * factor for name, rate in asdict(system.compute).items() if name not in counts}
    compute = Compute(**rates, host_cores=system.compute.host_cores)
    protocols = {
        name: ProtocolCosts(
            old.efficiency,
            old.step_seconds / factor,
            old.threadblock_bandwidth * factor,
            old.latency / factor,
        )
        for name, old in system.protocols.items()
    }
    exceptions = {
        path: replace(old.scaled(factor), latency=old.latency / factor)
        for path, old in system.exceptions.items()
    }
    return replace(system, levels=levels, compute=compute, protocols=protocols, exceptions=exceptions)


def _without_latency(system: System) -> System:
    def link(old: Link) -> Link:
        return replace(old, latency=0.0)

    levels = tuple(
        replace(
            level,
            link=None if level.link is None else link(level.link),
            fabric=replace(
                level.fabric, edges=tuple(replace(edge, latency=0.0) for edge in level.fabric.edges)
            ),
        )
        for level in system.levels
    )
    protocols = {name: replace(old, step_seconds=0.0, latency=0.0) for name, old in system.protocols.items()}
    exceptions = {path: link(old) for path, old in system.exceptions.items()}
    return replace(system, levels=levels, protocols=protocols, exceptions=exceptions)


@settings(max_examples=20, deadline=None)
@given(plan=small_plans(), system=systems())
def test_the_same_input_gives_the_same_bits(plan: Plan, system: System) -> None:
    options = ReplayOptions(record=True, fold=False)
    first, second = (simulate(plan, system, 1 << 20, runtime=EqualTiles(3), options=options) for _ in "ab")
    assert first.records.tobytes() == second.records.tobytes()
    assert first.pieces.tobytes() == second.pieces.tobytes()


def test_equal_groups_at_once_are_folded_into_one() -> None:
    plan, system = library_plan("allreduce_ring", "ranks=4 in_place=true"), hosts(4, 8)
    groups = [Load(plan, 1 << 20, [8 * host + local for host in range(4)]) for local in range(8)]
    folded = simulate_together(groups, system)
    unfolded = simulate_together(groups, system, options=ReplayOptions(fold=False))
    assert folded.num_simulated * 32 == unfolded.num_simulated
    np.testing.assert_allclose(folded.threadblock_seconds, unfolded.threadblock_seconds, rtol=EXACT)


def test_a_message_takes_latency_and_bytes() -> None:
    plan = library_plan("sendrecv", "ranks=2")
    system = System("pair", (Level("device", 2, Link(1e9, 2e9, 1e-3)),))
    found = simulate(plan, system, 1_000_000, runtime=EqualTiles(1))
    assert found.seconds == pytest.approx(2e-3 + 1e-3, rel=EXACT)
    tiled = simulate(plan, system, 1_000_000, runtime=EqualTiles(10, slots=10))
    assert tiled.seconds == pytest.approx(
        found.seconds, rel=EXACT
    )  # messages follow each other without a gap


def test_one_slot_makes_every_message_wait_for_the_one_before() -> None:
    plan = library_plan("sendrecv", "ranks=2")
    system = System("pair", (Level("device", 2, Link(1e9, 1e9, 1e-3)),))
    found = simulate(plan, system, 1_000_000, runtime=EqualTiles(10, slots=1))
    assert found.seconds == pytest.approx(10 * (2e-3 + 1e-4), rel=EXACT)


def test_a_fabric_with_a_bandwidth_is_shared_by_all_that_crosses_it() -> None:
    plan = library_plan("alltonext_direct", "ranks=4")
    free = System("free", (Level("device", 4, Link(1e9, 1e9)),))
    narrow = System("narrow", (Level("device", 4, Link(1e9, 1e9), Fabric(bandwidth=1.5e9)),))
    assert simulate(plan, narrow, 1 << 20).seconds == pytest.approx(
        2 * simulate(plan, free, 1 << 20).seconds, rel=0.02
    )


def test_adding_is_shared_by_the_devices_of_a_host() -> None:
    plan = library_plan("allreduce_ring", "ranks=4")
    system = hosts(1, 4, device=1e15, compute=Compute(host_add_bandwidth=1e9))
    found = simulate(plan, system, 1 << 20, options=ReplayOptions(record=True))
    assert found.seconds == pytest.approx(4 * (3 / 4) * (1 << 20) / 1e9, rel=0.01)
    assert found.reasons[0].words.startswith("adding, on host0")
    assert found.reasons[0].part > 0.95


def test_tiles_are_cut_as_the_executor_cuts_them() -> None:
    plan = library_plan("allreduce_ring", "ranks=4")
    assert HemiolaRuntime().tiles(plan, 1 << 20, [0, 1, 2, 3], None).tolist() == [256 << 10]
    assert HemiolaRuntime().tiles(plan, 2 << 20, [0, 1, 2, 3], None).tolist() == [256 << 10] * 2
    assert HemiolaRuntime().tiles(plan, 12, [0, 1, 2, 3], None).tolist() == [4]
    assert HemiolaRuntime().tiles(plan, (1 << 20) + 4, [0, 1, 2, 3], None).tolist() == [256 << 10, 4]
    assert HemiolaRuntime().tiles(plan, 0, [0, 1, 2, 3], None).tolist() == []
    assert simulate(plan, hosts(2, 2), 0).seconds == 0


def test_mistakes_are_told() -> None:
    plan = library_plan("allreduce_ring", "ranks=4")
    with pytest.raises(TopologyError, match=r"4 ranks.*2 devices"):
        simulate(plan, hosts(2, 1), 1024)
    with pytest.raises(TopologyError, match="different devices"):
        simulate(plan, hosts(2, 2), 1024, devices=[0, 0, 1, 2])
    with pytest.raises(TopologyError, match="device 9"):
        simulate(plan, hosts(2, 2), 1024, devices=[0, 9, 1, 2])
    with pytest.raises(LimitError, match="slots is at least 1"):
        HemiolaRuntime(slots=0)
    receiving = plan.steps.copy()
    receiving["opcode"][:] = 2
    with pytest.raises(PlanError, match="does not end"):
        simulate(replace(plan, steps=receiving), hosts(2, 2), 1024)
