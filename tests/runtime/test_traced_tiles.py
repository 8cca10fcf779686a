"""The tiles of a real trace are the tiles of a replay, for many plans, sizes and numbers of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan
from hemiola.runtime.checking.trial import Trial
from hemiola.runtime.communicator.calls import CallShape
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.plans.plan_source import plan_digest
from hemiola.runtime.settings import num_cores
from hemiola.simulator.runtimes.hemiola import HEMIOLA
from runtime.worlds import on_ranks

PLANS = (
    "allreduce_ring", "allreduce_allpairs", "allreduce_halving_doubling", "allgather_ring", "allgather_allpairs",
    "reducescatter_ring", "reducescatter_allpairs", "alltoall_allpairs", "broadcast_chain", "reduce_tree",
)  # fmt: skip
SIZES = (5_000, 3_000_004, 16 << 20)
"""Bytes of the collective before they are rounded up: one tile, a remainder, and many tiles."""
RANKS = (2, 3, 4)
CASES = [
    (name, RANKS[(number + turn) % 3], size)
    for number, name in enumerate(PLANS)
    for turn, size in enumerate(SIZES)
]
_MOVES = np.array([traits.sends or traits.receives for traits in TRAITS])


@pytest.mark.parametrize(("name", "ranks", "num_bytes"), CASES)
def test_a_trace_has_the_tiles_of_the_replay(name: str, ranks: int, num_bytes: int) -> None:
    plan = compile_program(ALGORITHMS[name].build(ranks=ranks)).plan
    share = -(-num_bytes // plan.collective.num_shares() // 4)
    expected = HEMIOLA.tiles(plan, share * 4 * plan.collective.num_shares(), [0] * ranks, num_cores())
    for found in on_ranks(ranks, lambda world: _traced_tiles(world, plan, share)):
        assert found == expected.tolist()


def _traced_tiles(world: Communicator, plan: Plan, share: int) -> list[float]:
    """The bytes of a chunk in every tile that a rank moved."""
    buffers = Trial(plan.collective, share).make_buffers(world.rank)
    engine = world._engine
    call = engine.prepare(plan, plan_digest(plan), CallShape("float32", "sum", share), proven=True)
    trace = engine.trace(call, buffers.input, buffers.output)
    first = plan.ranks["first_threadblock"][world.rank]
    rows = plan.threadblocks["first_step"][trace["threadblock"] + first] + trace["step"]
    steps = plan.steps[rows]
    moved = _MOVES[steps["opcode"]]
    each = trace["num_bytes"][moved] / steps["count"][moved]
    tiles = trace["tile"][moved]
    assert all(len(set(each[tiles == tile].tolist())) == 1 for tile in set(tiles.tolist()))
    return [float(each[tiles == tile][0]) for tile in sorted(set(tiles.tolist()))]
