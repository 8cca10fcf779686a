"""A rank that is killed: everybody else hears which one, wherever they wait, and can go on without it."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from integrations.torch import losing
from integrations.torch.torch_ranks import TorchRanks

VICTIM = 1


def test_a_killed_rank_is_named_and_the_others_go_on() -> None:
    ranks = TorchRanks(3)
    try:
        answers = ranks.answers(losing.in_calls_under_way, VICTIM)
    finally:
        ranks.close()
    assert answers[VICTIM] == (False, "ended with exit code -9")
    for survivor in (0, 2):
        assert answers[survivor] == (True, ([VICTIM] * 3, [0, 2]))


def test_backward_of_ddp_says_which_rank_was_lost() -> None:
    ranks = TorchRanks(3)
    try:
        answers = ranks.answers(losing.in_backward, VICTIM)
    finally:
        ranks.close()
    for survivor in (0, 2):
        ok, said = answers[survivor]
        assert ok, said
        assert "PeerLostError" in said
        assert f"rank {VICTIM}" in said
