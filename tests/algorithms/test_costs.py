"""Every cost card is what the traced program really does."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest

from algorithms.grid import RANKS, parameters, places
from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.library import ALGORITHMS
from hemiola.ir.chunk_dag import REDUCE, ChunkDag

SIZES = (*RANKS[:-1], 6, 9, 11, 13, 15, 17, 18, 24, 31)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_card_is_what_the_program_does(name: str) -> None:
    algorithm = ALGORITHMS[name]
    for chosen in parameters(algorithm, SIZES):
        for in_place in places(algorithm):
            dag = algorithm.build(**chosen, in_place=in_place).finish()
            assert algorithm.card(**chosen) == measure(dag), (chosen, in_place)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_instances_do_not_change_the_cost(name: str) -> None:
    algorithm = ALGORITHMS[name]
    for chosen in parameters(algorithm, (4, 6)):
        assert algorithm.card(**chosen) == measure(algorithm.build(**chosen, instances=4).finish())


@pytest.mark.parametrize("ranks", range(2, 130))
@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reducescatter"])
def test_halving_and_doubling_take_no_more_than_log_steps(kind: str, ranks: int) -> None:
    shape = {"allreduce": "halving_doubling", "allgather": "recursive_doubling"}.get(
        kind, "recursive_halving"
    )
    rounds = (ranks - 1).bit_length() * (2 if kind == "allreduce" else 1)
    assert ALGORITHMS[f"{kind}_{shape}"].card(ranks=ranks).steps <= rounds


def test_a_card_reads_as_a_sentence() -> None:
    assert str(CostCard.even(ranks=4, steps=6, sent=Fraction(3, 2))) == (
        "6 steps; the busiest rank sends 3/2 S and receives 3/2 S; all together 6 S"
    )


def measure(dag: ChunkDag) -> CostCard:
    """The card of a traced program: bytes counted, and for every chunk the messages behind its data."""
    depth: dict[tuple[int, int, int], int] = defaultdict(int)
    sent: dict[int, int] = defaultdict(int)
    received: dict[int, int] = defaultdict(int)
    for op in dag.operations.tolist():
        kind, src_buffer, dst_buffer, _, src_rank, src_index, dst_rank, dst_index, count = op[:9]
        brought = max(depth[src_rank, src_buffer, src_index + i] for i in range(count))
        if src_rank != dst_rank:
            brought += 1
            sent[src_rank] += count
            received[dst_rank] += count
        for i in range(count):
            chunk = dst_rank, dst_buffer, dst_index + i
            depth[chunk] = max(brought, depth[chunk]) if kind == REDUCE else brought
    own = max(dag.collective.input_chunks(rank) for rank in range(dag.num_ranks))
    return CostCard(
        max(depth.values(), default=0),
        Fraction(max(sent.values(), default=0), own),
        Fraction(max(received.values(), default=0), own),
        Fraction(sum(sent.values()), own),
    )
