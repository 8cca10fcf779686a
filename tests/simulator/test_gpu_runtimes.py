"""Models of GPU runtimes: the replay equals the slow reference, and plans are cut as the runtimes' rules say."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from hemiola.errors import LimitError
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan, Protocol
from hemiola.ir.runtime_slots import SLOT_RULES
from hemiola.simulator.replay import ReplayOptions, simulate
from hemiola.simulator.runtimes.by_name import RUNTIME_MODELS, runtime_named, runtime_of
from hemiola.simulator.runtimes.gpu import GpuRuntime
from hemiola.simulator.runtimes.message_steps import message_steps
from hemiola.simulator.timeline import Load
from hemiola.topology.system import Compute, ProtocolCosts, System
from simulator.reference import reference_seconds
from simulator.scenes import hosts, library_plan, small_plans, systems

EXACT = 1e-9
MOVES = np.array([traits.sends or traits.receives for traits in TRAITS])
GPU_MODELS = st.sampled_from([runtime_named(name) for name in ("nccl", "rccl", "msccl")])
COSTS = st.builds(
    ProtocolCosts,
    efficiency=st.sampled_from([1.0, 0.75]),
    step_seconds=st.sampled_from([0.0, 0.01]),
    threadblock_bandwidth=st.sampled_from([2e6, 4e6]),
    latency=st.sampled_from([0.0, 0.02]),
    launch_seconds=st.sampled_from([0.0, 0.5]),
    act_seconds=st.sampled_from([0.0, 0.003]),
    send_bandwidth=st.sampled_from([1e6, float("inf")]),
    receive_bandwidth=st.sampled_from([1.5e6, float("inf")]),
    nic_seconds=st.sampled_from([0.0, 0.25]),
)


def with_costs(system: System, costs: ProtocolCosts) -> System:
    return replace(system, protocols={"Simple": costs})


@settings(max_examples=60, deadline=None)
@given(
    plan=small_plans(),
    system=systems(),
    costs=COSTS,
    runtime=GPU_MODELS,
    num_bytes=st.sampled_from([1 << 10, 1 << 20, 5 << 20]),
)
def test_every_way_equals_the_reference(
    plan: Plan, system: System, costs: ProtocolCosts, runtime: GpuRuntime, num_bytes: int
) -> None:
    machine = with_costs(system, costs)
    expected = reference_seconds([Load(plan, num_bytes)], machine, runtime)
    for fold in (True, False):
        for by_events in (True, False):
            options = ReplayOptions(fold=fold, record=True, by_events=by_events)
            found = simulate(plan, machine, num_bytes, runtime=runtime, options=options)
            np.testing.assert_allclose(found.threadblock_seconds, expected, rtol=EXACT)


def test_a_direct_send_is_work() -> None:
    """Two ranks of a host: a threadblock stores 1 MB at 1 MB/s, the other takes it at 2 MB/s, slice by slice."""
    costs = ProtocolCosts(threadblock_bandwidth=2e6, send_bandwidth=1e6, launch_seconds=3.0, latency=0.25)
    system = with_costs(hosts(1, 2, device=8e6), costs)
    plan = library_plan("sendrecv", "ranks=2")
    found = simulate(plan, system, 1e6, runtime=runtime_named("nccl"))
    assert found.seconds == pytest.approx(3.0 + 1.0 + 0.25 + 0.25), (
        "launch, sending, latency, the second slice"
    )


def test_a_message_at_the_nic_costs_its_time() -> None:
    """Between hosts a message of 1 MB passes at 1 MB/s, after half a second in which the NIC is busy with it."""
    system = with_costs(hosts(2, 1, nic=1e6), ProtocolCosts(nic_seconds=0.5))
    plan = library_plan("sendrecv", "ranks=2")
    with_slices = simulate(plan, system, 1e6, runtime=runtime_named("nccl")).seconds
    assert with_slices == pytest.approx(1.0 + 2 * 0.5)


def test_direct_sends_share_what_their_device_adds() -> None:
    """A step that adds and sends at once is held up by the adding of its device, as in the bound."""
    plan = library_plan("allreduce_ring", "ranks=4")
    system = hosts(1, 4, device=1e9)
    slow = replace(system, compute=Compute(add_bandwidth=1e6))
    fast, held = (simulate(plan, one, 4e6, runtime=runtime_named("nccl")).seconds for one in (system, slow))
    assert held > 3 * 1e6 / 1e6 > fast


@settings(max_examples=60, deadline=None)
@given(plan=small_plans(), packed=st.integers(1, 5), slices=st.integers(1, 4), one=st.booleans())
def test_lowering_moves_the_same_chunks(plan: Plan, packed: int, slices: int, one: bool) -> None:
    lowered = message_steps(plan, packed, slices, one_dependency=one)
    made = lowered.plan
    moved, before = made.steps[MOVES[made.steps["opcode"]]], plan.steps[MOVES[plan.steps["opcode"]]]
    assert moved["count"].sum() == before["count"].sum() * slices
    assert moved["count"].max(initial=1) <= packed
    begins = np.ones(made.num_steps, bool) if lowered.begins is None else lowered.begins
    assert begins.sum() == plan.num_steps + _num_nops(made) - _num_nops(plan)
    for row in range(len(made.threadblocks)):
        assert len(made.steps_of(row)) >= len(plan.steps_of(row))


def _num_nops(plan: Plan) -> int:
    return sum(TRAITS[code].name == "nop" for code in plan.steps["opcode"].tolist())


@pytest.mark.parametrize(("runtime", "protocol"), list(SLOT_RULES))
def test_tiles_are_the_payload_of_a_message(runtime: str, protocol: Protocol) -> None:
    model, rule = runtime_named(runtime), SLOT_RULES[runtime, protocol]
    plan = replace(library_plan("allgather_ring", "ranks=4"), protocol=protocol)
    num_bytes = 4 * (3 * rule.payload_bytes + 4)
    tiles = model.tiles(plan, num_bytes, [0] * 4, None)
    assert len(tiles) == 4
    parts = rule.payload_bytes / tiles[0]
    assert tiles.sum() * parts == num_bytes / 4
    assert model.num_slots([plan]) == rule.slots * parts


def test_names() -> None:
    assert set(RUNTIME_MODELS) == {"hemiola", "nccl", "rccl", "msccl"}
    assert runtime_of(hosts(1, 2)) is RUNTIME_MODELS["hemiola"]
    with pytest.raises(LimitError, match="hemiola, nccl, rccl, msccl"):
        runtime_named("gloo")
