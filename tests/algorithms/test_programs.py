"""Every algorithm achieves its collective, at every size, in and out of place, and leaves the input alone."""

from __future__ import annotations

import pytest

from algorithms.grid import parameters, places
from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import Buffer
from hemiola.errors import CollectiveError, ProgramError
from hemiola.ir.plan import Protocol


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_achieves_its_collective(name: str) -> None:
    algorithm = ALGORITHMS[name]
    for chosen in parameters(algorithm):
        for in_place in places(algorithm):
            for instances in (1, 4):
                program = algorithm.build(**chosen, in_place=in_place, instances=instances)
                assert program.name == name
                assert program.collective.kind == algorithm.kind
                assert program.collective.in_place == in_place
                program.finish()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_out_of_place_never_writes_the_input(name: str) -> None:
    algorithm = ALGORITHMS[name]
    for chosen in parameters(algorithm):
        operations = algorithm.build(**chosen).finish().operations
        assert Buffer.INPUT not in operations["dst_buffer"], chosen


@pytest.mark.parametrize("name", ["reduce_tree", "reduce_chain", "gather_direct", "gather_tree"])
def test_in_place_only_the_root_is_written(name: str) -> None:
    for chosen in parameters(ALGORITHMS[name]):
        operations = ALGORITHMS[name].build(**chosen, in_place=True).finish().operations
        written = operations[operations["dst_buffer"] != Buffer.SCRATCH]["dst_rank"]
        assert set(written.tolist()) <= {chosen["root"]}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_one_rank_alone_only_copies(name: str) -> None:
    algorithm = ALGORITHMS[name]
    for chosen in parameters(algorithm, [1]):
        for in_place in places(algorithm):
            operations = algorithm.build(**chosen, in_place=in_place).finish().operations
            needs_copy = not in_place and algorithm.kind != "alltonext"
            assert len(operations) == (1 if needs_copy else 0)


@pytest.mark.parametrize("name", ["alltonext_direct", "alltonext_scattered", "sendrecv"])
def test_what_has_no_in_place_form_says_so(name: str) -> None:
    chosen = next(iter(parameters(ALGORITHMS[name], [8])))
    with pytest.raises(CollectiveError, match="has no in-place form; leave in_place out"):
        ALGORITHMS[name].build(**chosen, in_place=True)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_protocol_is_found_by_name(name: str) -> None:
    chosen = next(iter(parameters(ALGORITHMS[name], [4])))
    assert ALGORITHMS[name].build(**chosen, protocol="ll128").protocol is Protocol.LL128
    with pytest.raises(ProgramError, match="protocol is one of Simple, LL, LL128, but is 'fast'"):
        ALGORITHMS[name].build(**chosen, protocol="fast")


def test_halving_sends_one_run_per_swap() -> None:
    operations = ALGORITHMS["allreduce_halving_doubling"].build(ranks=16, in_place=True).finish().operations
    assert len(operations) == 16 * 2 * 4
    assert operations["count"][:16].tolist() == [8] * 16


def test_two_step_sends_one_message_per_pair_of_nodes_and_place() -> None:
    operations = ALGORITHMS["alltoall_two_step"].build(ranks=12, levels=(4, 3)).finish().operations
    across = operations[operations["src_rank"] // 3 != operations["dst_rank"] // 3]
    assert len(across) == 4 * 3 * 3
    assert set(across["count"].tolist()) == {3}


def test_three_step_sends_one_message_per_pair_of_nodes() -> None:
    operations = ALGORITHMS["alltoall_three_step"].build(ranks=12, levels=(4, 3)).finish().operations
    across = operations[operations["src_rank"] // 3 != operations["dst_rank"] // 3]
    assert len(across) == 4 * 3
    assert set(across["count"].tolist()) == {9}


@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reducescatter"])
@pytest.mark.parametrize("levels", [(4, 8), (2, 4, 4)])
def test_hierarchical_crosses_nodes_no_more_than_it_must(kind: str, levels: tuple[int, ...]) -> None:
    nodes, local = levels[0], 32 // levels[0]
    dag = ALGORITHMS[f"{kind}_hierarchical"].build(ranks=32, levels=levels).finish()
    operations = dag.operations
    across = operations[operations["src_rank"] // local != operations["dst_rank"] // local]
    chunks = int(across["count"].sum())
    moved_once = nodes * (nodes - 1) * local
    assert chunks == {"allreduce": 2, "allgather": 1, "reducescatter": 1}[kind] * moved_once
