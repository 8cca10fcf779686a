"""DDP and FSDP2 over the backend: the losses are those of gloo, up to the order of additions."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from integrations.torch import training
from integrations.torch.torch_ranks import TorchRanks


@pytest.mark.parametrize("train", [training.data_parallel, training.fully_sharded])
def test_losses_are_those_of_gloo(ranks: TorchRanks, train: object) -> None:
    assert callable(train)
    for losses in ranks.run(train):
        assert len(losses["hemiola"]) == training.STEPS
        assert losses["hemiola"] == pytest.approx(losses["gloo"], rel=1e-4)


@pytest.mark.parametrize("train", [training.unused_parameters, training.uneven_inputs])
def test_all_ranks_end_with_one_model(ranks: TorchRanks, train: object) -> None:
    assert callable(train)
    answers = ranks.run(train)
    assert all(answer == answers[0] for answer in answers)
