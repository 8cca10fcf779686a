"""Tiles that are not replayed follow no faster than the busiest link lets them, however fast the first ones were."""

from __future__ import annotations

from typing import Any

import pytest

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.cost.replay_seconds import _Replay, replay_seconds, searched_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.topology.system import Level, Link, System

SYSTEM = System("four", (Level("device", 4, Link(1e9, 1e9, 1e-6)),))
RING = compile_program(ALGORITHMS["allreduce_ring"].build(ranks=4, in_place=True)).plan


@pytest.mark.parametrize("seconds", [replay_seconds, searched_seconds])
def test_what_follows_takes_as_long_as_the_busiest_link(
    seconds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, num_bytes = CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, SYSTEM), 4 << 30
    monkeypatch.setattr(_Replay, "_pace", lambda self, first, last: 1e-15)
    # A ring moves twice three quarters of the bytes over every link.
    assert seconds(RING, num_bytes, request) >= 2 * 3 / 4 * num_bytes / 1e9
