"""Callbacks of futures may make calls and wait for them; every test has the timeout of ``TorchRanks``."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from integrations.torch import callbacks
from integrations.torch.torch_ranks import TorchRanks


@pytest.mark.parametrize(
    "check",
    [
        callbacks.waits_for_another_call,
        callbacks.nested,
        callbacks.waits_for_a_later_call,
        callbacks.on_two_groups,
    ],
)
def test_a_callback_can_wait_for(ranks: TorchRanks, check: object) -> None:
    assert callable(check)
    ranks.run(check)


def test_calls_of_callbacks_keep_their_order_beside_those_of_the_program(ranks: TorchRanks) -> None:
    expected = [float(sum(range(1, ranks.size + 1)))] * callbacks.NUM_CHAINS
    assert ranks.run(callbacks.chains_beside_calls) == [expected] * ranks.size


def test_the_error_of_a_callback_is_that_of_its_future(ranks: TorchRanks) -> None:
    assert ranks.run(callbacks.raising_callback) == ["seven is not even"] * ranks.size


def test_ddp_trains_with_the_power_sgd_hook(ranks: TorchRanks) -> None:
    for losses in ranks.run(callbacks.power_sgd):
        assert all(math.isfinite(loss) for loss in losses)
