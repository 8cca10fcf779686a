"""Measured collectives are the same on every worker, and cover the sizes up to the largest bucket."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from integrations.torch import stepping
from integrations.torch.torch_ranks import TorchRanks


def test_all_workers_know_the_same_times(ranks: TorchRanks) -> None:
    found = ranks.run(stepping.measured)
    times, contention, copy, sizes = found[0]
    assert list(times) == [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]
    assert sizes == [*times, *times]
    assert all(value > 0 for value in times.values())
    assert contention >= 0
    assert copy > 0
    assert all(other[0] == times and other[1] == contention for other in found)
