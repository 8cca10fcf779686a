"""Predicted steps against public ones; needs ../shared, and is skipped without it."""

from __future__ import annotations

import pytest
from benchmarks.training_steps import DATA, FITTED_GPUS, fit, read_rows

from hemiola.planner.compute_time import EFFICIENCY

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data/training_steps_h100.csv")


def test_steps_that_were_not_fitted_are_predicted_within_a_tenth() -> None:
    rows = [row for row in read_rows(DATA) if row.gpus > FITTED_GPUS]
    assert len(rows) == 3
    for row in rows:
        tokens, memory = row.predicted()
        assert tokens == pytest.approx(row.tokens_per_second, rel=0.1)
        assert memory == pytest.approx(row.memory_gib, rel=0.1)


def test_the_constants_of_the_package_are_the_fitted_ones() -> None:
    rows = [row for row in read_rows(DATA) if row.gpus == FITTED_GPUS]
    assert fit(rows) == pytest.approx(dict(EFFICIENCY), rel=1e-3)
