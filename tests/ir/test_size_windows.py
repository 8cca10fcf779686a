"""Windows of sizes: every size that a runtime takes lies in exactly one, and there its packing is that of the rule."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.collectives import AllGather, AllReduce, Collective, Custom, Gather, Scatter
from hemiola.ir.plan import Protocol
from hemiola.ir.runtime_slots import GPU_RUNTIMES, slot_rule
from hemiola.ir.size_windows import CountedBytes, SizeWindow, size_windows


@given(
    st.sampled_from(GPU_RUNTIMES),
    st.sampled_from(list(Protocol)),
    st.integers(1, 4096),
    st.integers(1, 1 << 26),
)
def test_a_size_lies_in_the_window_of_its_packing(
    runtime: str, protocol: Protocol, chunks: int, chunk_bytes: int
) -> None:
    rule, counted = slot_rule(runtime, protocol), CountedBytes(chunks)
    size = counted.size(chunk_bytes)
    assert counted.chunk_bytes(size) == chunk_bytes
    (found,) = [
        window
        for window in size_windows(rule, counted)
        if window.min_bytes <= size and (window.max_bytes is None or size <= window.max_bytes)
    ]
    assert found.packing == rule.chunks_per_message(chunk_bytes)


@pytest.mark.parametrize("runtime", GPU_RUNTIMES)
@pytest.mark.parametrize("protocol", list(Protocol))
def test_windows_follow_each_other_without_gaps(runtime: str, protocol: Protocol) -> None:
    windows = size_windows(slot_rule(runtime, protocol), CountedBytes(64))
    assert [windows[0].min_bytes, windows[-1].max_bytes] == [64, None]
    for before, after in pairwise(windows):
        assert before.max_bytes is not None
        assert after.min_bytes == before.max_bytes + 64
        assert after.packing < before.packing
    assert len(windows) <= 71


@given(st.integers(0, 5000), st.integers(1, 40))
def test_the_first_size_from_a_least_one(least: int, step: int) -> None:
    window = SizeWindow(3, 10 * step, 50 * step)
    expected = next((size for size in range(10 * step, 50 * step + 1, step) if size >= least), None)
    assert window.first_from(least, step) == expected


@pytest.mark.parametrize(
    ("collective", "runtime", "expected"),
    [
        (AllReduce(8, 64), "rccl", CountedBytes(64)),
        (AllGather(8, 2), "rccl", CountedBytes(16)),
        (Gather(4, 3), "rccl", CountedBytes(3, 4)),
        (Scatter(4, 3), "msccl", CountedBytes(12)),
        (Custom(input_chunks=[1, 5], output_chunks=[2, 4], promises={}), "msccl", CountedBytes(5)),
    ],
)
def test_what_runtimes_count(collective: Collective, runtime: str, expected: CountedBytes) -> None:
    assert CountedBytes.of(collective, runtime) == expected
