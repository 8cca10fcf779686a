"""One team of four ranks for all tests here: starting processes costs more than what they do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integrations.torch.team import Team


@pytest.fixture(scope="session")
def team() -> Iterator[Team]:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    team = Team(4)
    yield team
    team.close()
