"""Calls: shares and windows of every collective, and what tells calls apart."""

from __future__ import annotations

import numpy as np
import pytest

from hand_made import block, ring, step
from hemiola.algorithms.library import build
from hemiola.collectives import FACTS, Collective, CollectiveKind, Custom
from hemiola.compiler.compile import compile_program
from hemiola.errors import CollectiveError
from hemiola.ir.plan import Plan
from hemiola.runtime.communicator.calls import (
    CallShape,
    Shares,
    check_operator,
    describe,
    share_chunks,
    take_part,
)
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.plans.plan_source import plan_digest
from mutations import plan_of
from runtime.worlds import on_ranks

N = None
SHARES: dict[tuple[str, bool], list[tuple[int, int, int | None]]] = {
    ("allreduce", False): [(1, 1, N), (1, 1, N), (1, 1, N)],
    ("allreduce", True): [(1, 1, 0), (1, 1, 0), (1, 1, 0)],
    ("allgather", False): [(1, 3, N), (1, 3, N), (1, 3, N)],
    ("allgather", True): [(1, 3, 0), (1, 3, 1), (1, 3, 2)],
    ("reducescatter", False): [(3, 1, N), (3, 1, N), (3, 1, N)],
    ("reducescatter", True): [(3, 1, 0), (3, 1, -1), (3, 1, -2)],
    ("alltoall", False): [(3, 3, N), (3, 3, N), (3, 3, N)],
    ("alltoall", True): [(3, 3, 0), (3, 3, 0), (3, 3, 0)],
    ("alltonext", False): [(1, 1, N), (1, 1, N), (1, 1, N)],
    ("broadcast", False): [(0, 1, N), (1, 1, N), (0, 1, N)],
    ("broadcast", True): [(1, 1, 0), (1, 1, 0), (1, 1, 0)],
    ("reduce", False): [(1, 0, N), (1, 1, N), (1, 0, N)],
    ("reduce", True): [(1, 0, 0), (1, 1, 0), (1, 0, 0)],
    ("gather", False): [(1, 0, N), (1, 3, N), (1, 0, N)],
    ("gather", True): [(1, 0, N), (1, 3, 1), (1, 0, N)],
    ("scatter", False): [(0, 1, N), (3, 1, N), (0, 1, N)],
    ("scatter", True): [(0, 1, N), (3, 1, -1), (0, 1, N)],
    ("sendrecv", False): [(0, 0, N), (1, 0, N), (0, 1, N)],
}
"""By collective and place, of three ranks with root 1 and peer 2: input, output and window, in shares."""


def plan_for(collective: Collective) -> Plan:
    """A plan that does nothing; shares depend on the collective alone."""
    return plan_of(collective, [block(rank, step("nop")) for rank in range(collective.num_ranks)])


def test_the_table_has_every_collective() -> None:
    places = {(kind, place) for kind, row in FACTS.items() for place in {False, row.can_be_in_place}}
    assert set(SHARES) == {(kind, place) for kind, place in places if kind != "custom"}


@pytest.mark.parametrize(("kind", "in_place"), SHARES, ids=str)
def test_shares_of_every_collective(kind: str, in_place: bool) -> None:
    for chunks in (1, 4):
        plan = plan_for(Collective(CollectiveKind(kind), 3, chunks, in_place, root=1, peer=2))
        assert [Shares.of(plan, rank) for rank in range(3)] == [
            Shares(*row) for row in SHARES[kind, in_place]
        ]
        assert share_chunks(plan) == chunks


def test_every_chunk_of_a_custom_collective_is_a_share() -> None:
    plan = plan_for(Custom(input_chunks=[4, 2], output_chunks=[1, 3], promises={(0, 0): [(0, 0)]}))
    assert share_chunks(plan) == 1
    assert Shares.of(plan, 0) == Shares(4, 1, None)
    assert Shares.of(plan, 1) == Shares(2, 3, None)


def test_a_part_knows_its_connections() -> None:
    part = take_part(ring(4, fused=True, count=2), 1)
    assert part.sends == [(2, 0)]
    assert part.receives == [(0, 0)]
    assert part.max_count == 2


def test_operators_that_mean_nothing_are_refused() -> None:
    plan = ring(2, fused=True)
    for op in ("sum", "prod", "min", "max", "avg"):
        check_operator(plan, CallShape("float32", op, 1))
    with pytest.raises(
        CollectiveError, match="there is no operator 'xor'; known are sum, prod, min, max, avg"
    ):
        check_operator(plan, CallShape("float32", "xor", 1))
    custom = plan_for(Custom(input_chunks=[1], output_chunks=[1], promises={(0, 0): [(0, 0)]}))
    with pytest.raises(CollectiveError, match="avg has no meaning for a custom collective"):
        check_operator(custom, CallShape("float32", "avg", 1))


def test_a_call_in_words() -> None:
    plan = ring(2, fused=True)
    words = describe(plan, CallShape("float32", "max", 256), plan_digest(plan))
    for part in (
        "allreduce",
        "1KiB a share",
        "float32 max",
        "in place",
        plan.name,
        plan_digest(plan)[:4].hex(),
    ):
        assert part in words
    plan = compile_program(build("broadcast_tree", {"ranks": "3", "root": "2"})).plan
    words = describe(plan, CallShape("int8", "sum", 10), plan_digest(plan))
    assert "root 2" in words
    assert "sum" not in words


def test_avg_is_for_what_adds_up() -> None:
    """Data that is only moved is not divided, whatever the operator."""
    plan = compile_program(build("allgather_ring", {"ranks": "2"})).plan
    assert not FACTS[plan.collective.kind].sums

    def body(world: Communicator) -> list[int]:
        output = np.zeros(2, np.int64)
        world.run(plan, np.array([world.rank + 6]), output, op="avg")
        return output.tolist()

    assert on_ranks(2, body) == [[6, 7]] * 2
