"""Beside the chosen plan stands the best one of another family, never the chosen one again."""

from __future__ import annotations

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.topology.shapes import load_shape
from hemiola.tuning.tune import tune


@pytest.mark.parametrize("kind", [CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER])
def test_the_second_is_of_another_family_and_no_faster(kind: CollectiveKind) -> None:
    tuning = tune(CollectiveRequest.of_system(kind, load_shape("2x4")), [4096, 1 << 20])
    tuned = [size for size in tuning.sizes if size.chosen.candidate is not None]
    assert tuned
    for size in tuned:
        assert size.chosen.candidate is not None
        assert size.second is not None
        assert size.second.candidate is not None
        assert size.second.candidate.family != size.chosen.candidate.family
        assert size.second.seconds >= size.chosen.seconds * (1 - 1e-9) or size.chosen == size.default
