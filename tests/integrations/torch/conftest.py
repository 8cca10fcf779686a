"""Four ranks for all tests here: starting processes costs more than what they do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integrations.torch.torch_ranks import TorchRanks


@pytest.fixture(scope="session")
def ranks() -> Iterator[TorchRanks]:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    ranks = TorchRanks(4)
    yield ranks
    ranks.close()
