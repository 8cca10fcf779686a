"""No plan is simulated faster than the bound of its collective."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.ir.plan import Plan
from hemiola.simulator.replay import simulate
from hemiola.simulator.runtimes.hemiola import HemiolaRuntime
from hemiola.simulator.runtimes.runtime_model import EqualTiles, RuntimeModel
from hemiola.topology.system import System
from simulator.scenes import library_plan, systems

ON_EIGHT = (
    ("allreduce_ring", ""),
    ("allreduce_allpairs", ""),
    ("allreduce_hierarchical", "levels=4,2"),
    ("allreduce_hierarchical", "levels=2,4"),
    ("allreduce_double_binary_tree", "chunks=4"),
    ("allreduce_halving_doubling", ""),
    ("allgather_ring", ""),
    ("allgather_allpairs", ""),
    ("alltoall_allpairs", ""),
    ("alltoall_two_step", "levels=2,4"),
    ("broadcast_chain", "chunks=8"),
    ("reduce_tree", "chunks=4"),
    ("reducescatter_ring", ""),
    ("alltonext_direct", ""),
    ("gather_direct", ""),
    ("scatter_direct", ""),
    ("sendrecv", ""),
)


@settings(max_examples=150, deadline=None)
@given(
    plan=st.sampled_from(ON_EIGHT).map(lambda row: library_plan(row[0], f"ranks=8 {row[1]}")),
    system=systems().filter(lambda system: system.num_ranks == 8),
    num_bytes=st.sampled_from([1 << 10, 1 << 16, 1 << 20]),
    runtime=st.sampled_from([HemiolaRuntime(), EqualTiles(1), EqualTiles(4)]),
)
def test_no_plan_is_faster_than_the_bound(
    plan: Plan, system: System, num_bytes: int, runtime: RuntimeModel
) -> None:
    found = lower_bound(plan.collective, num_bytes, system)
    seconds = simulate(plan, system, num_bytes, runtime=runtime).seconds
    assert seconds >= found.seconds * (1 - 1e-9)
