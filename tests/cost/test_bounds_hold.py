"""No plan of the library is faster than the bound, on any small system, by the simulator and by the load of its links."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.bound_systems import systems
from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import FACTS
from hemiola.compiler.compile import compile_program
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.errors import TopologyError
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan
from hemiola.simulator.replay import simulate
from hemiola.topology.network import network_of
from hemiola.topology.rescale import without_latency
from hemiola.topology.system import RUNTIMES, Compute, ProtocolCosts, System


@cache
def plan_of(name: str, ranks: int, levels: tuple[int, ...], in_place: bool) -> Plan:
    algorithm = ALGORITHMS[name]
    known: dict[str, Any] = {"ranks": ranks, "levels": levels, "root": ranks - 1, "destination": ranks - 1}
    chosen = {key: value for key, value in known.items() if key in algorithm.parameters}
    if "in_place" in algorithm.parameters and FACTS[algorithm.kind].can_be_in_place:
        chosen["in_place"] = in_place
    return compile_program(algorithm.build(**chosen)).plan


def two_factors(ranks: int) -> tuple[int, int]:
    inner = max(size for size in range(1, ranks + 1) if ranks % size == 0 and size * size <= ranks)
    return ranks // inner, inner


def load_seconds(plan: Plan, system: System, num_bytes: int) -> float:
    """How long the busiest link carries what the plan sends over it."""
    network = network_of(system)
    chunk_bytes = num_bytes / int(plan.collective.named_chunks()[0].max())
    load = np.zeros(network.num_links)
    for row, block in enumerate(plan.threadblocks):
        for step in plan.steps[plan.steps_of(row).start : plan.steps_of(row).stop]:
            if TRAITS[int(step["opcode"])].sends:
                route = network.route(int(block["rank"]), int(block["send_peer"]))
                load[list(route)] += int(step["count"]) * chunk_bytes
    return float((load / network.capacities).max())


names = st.sampled_from(sorted(ALGORITHMS))
protocols = st.sampled_from(
    [
        ProtocolCosts(),
        ProtocolCosts(efficiency=0.7, step_seconds=2e-6, latency=3e-6),
        ProtocolCosts(
            efficiency=0.7, latency=1e-6, launch_seconds=5e-6, send_bandwidth=2e10, nic_seconds=2e-6
        ),
    ]
)
runtimes = st.sampled_from(RUNTIMES)


@settings(max_examples=200, deadline=None)
@given(systems(), names, st.integers(1, 1 << 22), protocols, st.booleans(), runtimes)
def test_no_simulated_plan_is_below_the_bound(
    system: System, name: str, num_bytes: int, protocol: ProtocolCosts, in_place: bool, runtime: str
) -> None:
    n = system.num_ranks
    if n < 2:
        return
    system = replace(system, protocols={"Simple": protocol}, runtime=runtime)
    plan = plan_of(name, n, two_factors(n), in_place)
    try:
        seconds = simulate(plan, system, num_bytes).seconds
    except TopologyError:
        return  # units of a mesh that others need are missing
    bound = lower_bound(plan.collective, num_bytes, system, protocol)
    assert seconds >= bound.seconds * (1 - 1e-9), bound.why


@settings(max_examples=30, deadline=None)
@given(systems(), names)
def test_the_busiest_link_of_no_plan_is_below_the_bound(system: System, name: str) -> None:
    n, num_bytes = system.num_ranks, 1 << 20
    if n < 2:
        return
    still = replace(without_latency(system), compute=Compute())
    plan = plan_of(name, n, two_factors(n), False)
    try:
        load = load_seconds(plan, still, num_bytes)
    except TopologyError:
        return
    bound = lower_bound(plan.collective, num_bytes, still)
    assert load >= bound.seconds * (1 - 1e-9), bound.why
