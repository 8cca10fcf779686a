"""Tiles: what the core says of how a call is cut, and what the executor does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hand_made import ring
from hemiola._core import Cut, RanksOn, cut_into_tiles, locate_ranks
from hemiola.ir.rows import plan_view
from hemiola.runtime.communicator.calls import CallShape, share_chunks
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.plans.plan_source import plan_digest
from hemiola.runtime.settings import Settings
from runtime.worlds import on_ranks

SLOT_BYTES = Settings().slot_bytes
SHARE = (64 << 20) // 4


@pytest.mark.parametrize(
    ("ranks_on", "message_bytes"),
    [
        (RanksOn.OWN_CORES, 1 << 20),
        (RanksOn.SHARED_CORES, 512 << 10),
        (RanksOn.SEVERAL_HOSTS, 256 << 10),
    ],
)
def test_a_ring_of_two_ranks_sends_the_messages_of_where_it_runs(
    ranks_on: RanksOn, message_bytes: int
) -> None:
    tiles = cut_into_tiles(
        Cut(2, 1, 1), elements=SHARE, element_bytes=4, slot_bytes=SLOT_BYTES, ranks_on=ranks_on
    )
    lengths = tiles.lengths()
    assert lengths.dtype == np.uint64
    assert set((lengths * 4).tolist()) == {message_bytes}
    assert int(lengths.sum()) == SHARE // 2 == tiles.chunk


@pytest.mark.parametrize(
    ("elements", "chunk", "remainder", "lengths"),
    [(100_000, 33_333, 1, [33_333, 1]), (100, 0, 34, [34]), (99, 33, 0, [33]), (0, 0, 0, [])],
)
def test_what_does_not_divide_runs_in_a_last_tile(
    elements: int, chunk: int, remainder: int, lengths: list[int]
) -> None:
    tiles = cut_into_tiles(
        Cut(3, 1, 1),
        elements=elements,
        element_bytes=4,
        slot_bytes=SLOT_BYTES,
        ranks_on=RanksOn.SEVERAL_HOSTS,
    )
    assert (tiles.chunk, tiles.remainder, tiles.lengths().tolist()) == (chunk, remainder, lengths)


@given(
    st.builds(Cut, st.integers(1, 12), st.integers(1, 8), st.integers(1, 100)),
    st.integers(0, 1 << 20),
    st.sampled_from([1, 2, 3, 4, 8, 100]),
    st.sampled_from([0, 1, 64, 5000, 1 << 20]),
    st.sampled_from([1 << 10, 1 << 16, 1 << 20]),
    st.sampled_from(list(RanksOn)),
)
def test_tiles_cover_every_share_and_messages_fit(
    cut: Cut, elements: int, element_bytes: int, message_bytes: int, slot_bytes: int, ranks_on: RanksOn
) -> None:
    tiles = cut_into_tiles(
        cut,
        elements=elements,
        element_bytes=element_bytes,
        message_bytes=message_bytes,
        slot_bytes=slot_bytes,
        ranks_on=ranks_on,
    )
    lengths = tiles.lengths()
    assert len(lengths) == tiles.num_tiles
    assert int(lengths.sum()) == tiles.chunk + tiles.remainder
    missing = elements - tiles.chunk * cut.block_chunks
    assert 0 <= missing <= tiles.remainder * cut.block_chunks
    assert (missing > 0) == (tiles.remainder > 0)
    if len(lengths):
        assert int(lengths.min()) >= 1
        largest = int(lengths.max()) * cut.max_count * element_bytes
        assert largest <= slot_bytes
        assert message_bytes == 0 or largest <= max(message_bytes, cut.max_count * element_bytes)


def test_a_message_that_cannot_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="a message of 9 chunks does not fit in a slot of 64 bytes"):
        cut_into_tiles(Cut(2, 9, 1), elements=100, element_bytes=8, slot_bytes=64, ranks_on=RanksOn.OWN_CORES)
    with pytest.raises(RuntimeError, match="broken invariant"):
        cut_into_tiles(Cut(0, 1, 1), elements=100, element_bytes=8, slot_bytes=64, ranks_on=RanksOn.OWN_CORES)


def test_where_ranks_are() -> None:
    assert locate_ranks(4, 2, 1) is RanksOn.SEVERAL_HOSTS
    assert locate_ranks(4, 4, 2) is RanksOn.SHARED_CORES
    assert locate_ranks(4, 4, 1) is RanksOn.OWN_CORES


@pytest.mark.parametrize("elements", [1, 1000, 300_001, 1 << 20])
def test_the_executor_cuts_as_it_says(elements: int) -> None:
    """Every step of every tile, with its bytes, as a trace of the runtime shows it."""
    plan = ring(2, fused=True)
    cut = Cut.of(plan_view(plan), share_chunks(plan))
    assert (cut.block_chunks, cut.max_count, cut.max_sends) == (2, 1, 1)

    def body(world: Communicator) -> tuple[list[int], int]:
        data = np.zeros(elements, np.float32)
        engine = world._engine
        call = engine.prepare(plan, plan_digest(plan), CallShape("float32", "sum", elements), proven=True)
        trace = engine.trace(call, data, data)
        assert set(Counter(trace["tile"].tolist()).values()) == {plan.num_steps // 2}
        first = trace[(trace["threadblock"] == 0) & (trace["step"] == 0)]
        return first["num_bytes"].tolist(), len(set(trace["tile"].tolist()))

    found = on_ranks(2, body)
    # Where threads run does not matter here: the number of cores of this machine decides.
    cuts = [
        cut_into_tiles(cut, elements=elements, element_bytes=4, slot_bytes=SLOT_BYTES, ranks_on=ranks_on)
        for ranks_on in (RanksOn.OWN_CORES, RanksOn.SHARED_CORES)
    ]
    for message_bytes, num_tiles in found:
        assert any(
            message_bytes == (tiles.lengths() * 4).tolist() and num_tiles == tiles.num_tiles for tiles in cuts
        )
