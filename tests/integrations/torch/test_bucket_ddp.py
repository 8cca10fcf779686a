"""DDP and FSDP2 in the buckets of a plan train what they train without it."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from integrations.torch import bucketing
from integrations.torch.torch_ranks import TorchRanks


@pytest.mark.parametrize("backend", ["hemiola", "gloo"])
@pytest.mark.parametrize(("no_sync", "traced"), [(False, False), (True, False), (False, True), (True, True)])
def test_ddp_in_buckets_of_a_plan_trains_as_before(
    ranks: TorchRanks, backend: str, no_sync: bool, traced: bool
) -> None:
    for found, expected, apart in ranks.run(bucketing.buckets_of_ddp, backend, no_sync, traced):
        assert found == pytest.approx(expected, rel=1e-4)
        assert apart < 2e-4


def test_parameters_that_a_rank_did_not_use_count_as_zeros(ranks: TorchRanks) -> None:
    found = ranks.run(bucketing.unused_on_some_ranks)
    assert all(len(one) == 6 and one == pytest.approx(found[0]) for one in found)
    assert all(value != 0 for value in found[0])


def test_fsdp_in_buckets_of_a_plan_trains_as_before(ranks: TorchRanks) -> None:
    for found, expected, groups in ranks.run(bucketing.buckets_of_fsdp):
        assert found == pytest.approx(expected, rel=1e-4)
        assert groups > 1


def test_a_plan_of_another_model_is_refused(ranks: TorchRanks) -> None:
    for text in ranks.run(bucketing.plan_of_another_model):
        assert "differ in name or bytes; run hemiola fuse again" in text
