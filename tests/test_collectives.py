"""What each collective means, against closed forms written out chunk by chunk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.collectives import (
    FACTS,
    AllReduce,
    AllToNext,
    Broadcast,
    Buffer,
    Collective,
    CollectiveKind,
    Custom,
    Reduce,
    SendRecv,
    parse_kind,
)
from hemiola.errors import CollectiveError

Wanted = dict[tuple[int, int], set[tuple[int, int]]]
"""(rank, output chunk) -> (rank, input chunk) of all that it sums."""


def closed_form(c: Collective) -> Wanted:
    """The table in ``collectives.py``, in the plainest words."""
    ranks, chunks = range(c.num_ranks), range(c.chunks)
    size = c.chunks
    forms: dict[str, Wanted] = {
        "allreduce": {(r, i): {(q, i) for q in ranks} for r in ranks for i in chunks},
        "allgather": {(r, q * size + i): {(q, i)} for r in ranks for q in ranks for i in chunks},
        "reducescatter": {(r, i): {(q, r * size + i) for q in ranks} for r in ranks for i in chunks},
        "alltoall": {(r, q * size + i): {(q, r * size + i)} for r in ranks for q in ranks for i in chunks},
        "alltonext": {(r, i): {(r - 1, i)} for r in ranks if r > 0 for i in chunks},
        "broadcast": {(r, i): {(c.root, i)} for r in ranks for i in chunks},
        "reduce": {(c.root, i): {(q, i) for q in ranks} for i in chunks},
        "gather": {(c.root, q * size + i): {(q, i)} for q in ranks for i in chunks},
        "scatter": {(r, i): {(c.root, r * size + i)} for r in ranks for i in chunks},
        "sendrecv": {(c.peer, i): {(c.root, i)} for i in chunks},
    }
    return forms[c.kind]


@st.composite
def standard(draw: st.DrawFn) -> Collective:
    kind = draw(st.sampled_from([kind for kind in FACTS if kind is not CollectiveKind.CUSTOM]))
    num_ranks = draw(st.integers(1, 6))
    in_place = FACTS[kind].can_be_in_place and draw(st.booleans())
    root, peer = (draw(st.integers(0, num_ranks - 1)) for _ in range(2))
    return Collective(kind, num_ranks, draw(st.integers(1, 4)), in_place, root, peer)


@given(standard())
def test_the_promises_are_the_closed_form(c: Collective) -> None:
    named = {
        (rank, *c.locate(rank, Buffer.OUTPUT, index)): origins
        for (rank, index), origins in closed_form(c).items()
    }
    promised = {chunk: set(origins) for chunk, origins in c.meaning().promises()}
    assert promised == {
        (rank, int(buffer), index): origins for (rank, buffer, index), origins in named.items()
    }


@given(standard())
def test_the_inputs_hold_themselves(c: Collective) -> None:
    for chunk, (rank, index) in c.meaning().holdings():
        buffer, place = c.locate(rank, Buffer.INPUT, index)
        assert chunk == (rank, int(buffer), place)


@given(standard(), st.integers(1, 5))
def test_cutting_chunks_keeps_the_meaning(c: Collective, factor: int) -> None:
    coarse = dict(c.meaning().promises())
    for (rank, buffer, index), origins in c.refine(factor).meaning().promises():
        whole = coarse[rank, buffer, index // factor]
        assert {(r, i // factor) for r, i in origins} == whole
        assert {i % factor for _, i in origins} == {index % factor}


@given(standard())
def test_what_is_stored_covers_what_is_named(c: Collective) -> None:
    stored = c.stored_chunks()
    for buffer, sizes in zip((Buffer.INPUT, Buffer.OUTPUT), c.named_chunks(), strict=True):
        for rank, size in enumerate(sizes):
            for index in range(int(size)):
                where, place = c.locate(rank, buffer, index)
                assert place < stored[where][rank]


def test_a_collective_of_ones_own() -> None:
    c = Custom(
        input_chunks=[2, 1], output_chunks=[1, 1], promises={(0, 0): [(1, 0), (0, 1)], (1, 0): [(0, 0)]}
    )
    assert dict(c.meaning().promises()) == {(0, 1, 0): {(0, 1), (1, 0)}, (1, 1, 0): {(0, 0)}}
    assert dict(c.refine(2).meaning().promises())[0, 1, 1] == {(0, 3), (1, 1)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AllReduce(0), "between 1 and 1048576 ranks, but has 0"),
        (lambda: AllReduce(2, chunks=0), "at least one chunk"),
        (lambda: Collective(CollectiveKind.ALLTOALL, 1 << 20, 1 << 20), "at most 268435456 per buffer"),
        (lambda: Broadcast(4, root=4), "root 4 of broadcast is not one of 4 ranks"),
        (lambda: Reduce(4, root=-1), "root -1 of reduce is not one of 4 ranks"),
        (lambda: SendRecv(2, destination=5), "peer 5 of sendrecv is not one of 2 ranks"),
        (lambda: Collective(parse_kind("allsum"), 2), "no collective 'allsum'; known are allreduce, allgather"),
        (lambda: Collective(CollectiveKind.ALLTONEXT, 2, in_place=True), "alltonext has no in-place form; leave in_place out"),
        (lambda: Collective(CollectiveKind.CUSTOM, 2), "a custom collective is made with Custom"),
        (lambda: Custom(input_chunks=[1], output_chunks=[1, 1], promises={}), "names 1 ranks and output_chunks 2"),
        (lambda: Custom(input_chunks=[1], output_chunks=[1], promises={(0, 1): [(0, 0)]}), "chunk 1 of rank 0's output"),
        (lambda: Custom(input_chunks=[1], output_chunks=[1], promises={(0, 0): [(0, 2)]}), "chunk 2 of rank 0's input"),
        (lambda: Custom(input_chunks=[1], output_chunks=[1], promises={(0, 0): []}), "each contribution once and at least"),
        (lambda: Custom(input_chunks=[1], output_chunks=[1], promises={(0, 0): [(0, 0)] * 2}), "each contribution once"),
    ],
)  # fmt: skip
def test_contradictions_are_named(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(CollectiveError, match=message):
        make()


def test_rank_0_of_alltonext_is_promised_nothing() -> None:
    assert {rank for (rank, _, _), _ in AllToNext(3).meaning().promises()} == {1, 2}


@pytest.mark.parametrize("text", ["all_reduce", "all-reduce", "AllReduce", "allreduce"])
def test_collectives_are_known_by_every_spelling(text: str) -> None:
    assert parse_kind(text) is CollectiveKind.ALLREDUCE
