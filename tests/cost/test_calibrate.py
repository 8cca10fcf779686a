"""Calibration: constants that are known are found again, wrong rows do no harm, and the public H200 table."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cost.bound_systems import GB, one_switch, two_levels
from hemiola.cost.bounds.level_capacities import Distances
from hemiola.cost.calibrate.calibrate import LARGE_BYTES, calibrate, rows_of
from hemiola.cost.calibrate.fit import Constants, MeasuredRows, errors, fit
from hemiola.errors import FormatError
from hemiola.topology.parse.measured_times import read_measurements
from hemiola.topology.parse.nccl_tests import Measurement
from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.presets import load_system
from hemiola.topology.rescale import with_bandwidths, with_latencies, without_latency
from hemiola.topology.system import Link, System
from hemiola.topology.write_system import write_system

H200 = Path(__file__).parents[3] / "shared" / "data" / "busbw" / "h200x8_allreduce.csv"
SIZES = [1 << exponent for exponent in range(10, 34)]
TRUE = Constants(0.0, (1e-6, 2e-6, 8e-6), (0.2, 0.6, 0.95))


def rows(constants: Constants, steps: float = 14.0) -> MeasuredRows:
    wire = np.array(SIZES) * 1.75 / 400e9
    known = MeasuredRows(np.full(len(SIZES), steps), wire, np.ones(len(SIZES)))
    return replace(known, seconds=constants.predict(known))


def test_constants_are_found_again() -> None:
    found = fit(rows(TRUE))
    assert found.step_seconds == pytest.approx(TRUE.step_seconds, rel=1e-3)
    assert found.efficiencies == pytest.approx(TRUE.efficiencies, rel=1e-3)
    assert found.num_parameters == 6


def test_one_protocol_is_enough_where_there_was_one() -> None:
    found = fit(rows(Constants(0.0, (3e-6,), (0.8,))))
    assert found.num_parameters == 2
    assert found.efficiencies == pytest.approx((0.8,), rel=1e-3)


def test_outliers_and_flat_rows_do_little() -> None:
    """Three rows ten times too slow, and noise of two percent on all."""
    exact = rows(TRUE)
    noise = np.exp(np.random.default_rng(1).normal(0, 0.02, len(exact)))
    noise[[5, 12, 20]] *= 10
    found = fit(replace(exact, seconds=exact.seconds * noise))
    assert np.mean(errors(found, exact)) < 0.03


def test_a_launch_is_told_from_steps_where_their_number_varies() -> None:
    truth = Constants(20e-6, (1e-6,), (0.9,))
    parts = [rows(truth, steps) for steps in (1.0, 7.0, 62.0)]
    both = MeasuredRows(
        *(
            np.concatenate([getattr(one, name) for one in parts])
            for name in ("steps", "wire_seconds", "seconds")
        )
    )
    found = fit(both)
    assert found.launch_seconds == pytest.approx(20e-6, rel=0.02)
    assert found.step_seconds[0] == pytest.approx(1e-6, rel=0.02)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(FormatError, match="four rows"):
        fit(rows(TRUE).take(np.arange(len(SIZES)) < 3))


def measured(system: System, kind: str, step: float, efficiency: float) -> list[Measurement]:
    n = system.num_ranks
    blank = [Measurement(kind, n, size, 1.0) for size in SIZES]
    seconds = Constants(0.0, (step,), (efficiency,)).predict(rows_of(blank, system))
    return [replace(one, seconds=float(time)) for one, time in zip(blank, seconds, strict=True)]


def test_a_calibrated_system_has_what_was_measured() -> None:
    system = one_switch(8, 100 * GB, 1e-6)
    found = calibrate(measured(system, "allgather", 10e-6, 0.8), system)
    assert found.mean_error() == pytest.approx(0, abs=1e-3)
    assert list(found.system.protocols) == ["Simple"]
    assert found.system.protocols["Simple"].efficiency == pytest.approx(0.8, rel=1e-3)
    assert found.system.protocols["Simple"].step_seconds == pytest.approx(0, abs=1e-8)
    assert Distances(found.system, found.system.devices[:8]).diameter()[0] == pytest.approx(10e-6, rel=1e-2)
    assert not found.below_bound


def test_links_better_than_described_are_raised_at_the_level_that_decides() -> None:
    system = two_levels(2, 4, 10 * GB, 300 * GB)
    found = calibrate(measured(system, "allreduce", 10e-6, 1.5), system)
    outer, inner = (level.link for level in found.system.levels)
    assert outer is not None
    assert inner == Link(300 * GB, 300 * GB)
    assert outer.bandwidth_out == pytest.approx(15 * GB, rel=1e-3)
    assert found.below_bound
    again = calibrate(found.measurements, found.system)
    assert again.constants.efficiencies[-1] == pytest.approx(1.0, rel=1e-2)


def test_every_second_row_is_held_out() -> None:
    system = one_switch(4, GB)
    found = calibrate(measured(system, "allreduce", 1e-6, 0.5), system)
    assert found.fitted.tolist() == [number % 2 == 1 for number in range(len(SIZES))]
    assert [one.num_bytes for one in found.measurements] == SIZES


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(FormatError, match="of 9 ranks, and system 'switch' has 4 devices"):
        calibrate([Measurement("allreduce", 9, 1024, 1e-3)], one_switch(4, GB))
    with pytest.raises(FormatError, match="custom cannot be fitted"):
        calibrate([Measurement("custom", 4, 1024, 1e-3)], one_switch(4, GB))


def test_without_latency_nothing_else_changes() -> None:
    system = replace(one_switch(4, GB, 1e-6), exceptions={(1,): Link(GB, 2 * GB, 5e-6)})
    still = without_latency(system)
    assert still.link_of((0,)) == Link(GB, GB)
    assert still.link_of((1,)) == Link(GB, 2 * GB)


def test_a_step_that_only_one_protocol_has_is_its_message() -> None:
    system = two_levels(2, 4, 100 * GB, 300 * GB)
    blank = [Measurement("allreduce", 8, size, 1.0) for size in SIZES]
    truth = Constants(0.0, (1e-6, 9e-6), (0.2, 0.9))
    times = truth.predict(rows_of(blank, system)).tolist()
    found = calibrate([replace(one, seconds=time) for one, time in zip(blank, times, strict=True)], system)
    assert list(found.system.protocols) == ["Simple", "LL"]
    assert found.system.protocols["LL"].step_seconds == pytest.approx(0, abs=1e-8)
    assert found.system.protocols["Simple"].latency == pytest.approx(8e-6, rel=1e-2)
    assert Distances(found.system, found.system.devices[:8]).diameter()[0] == pytest.approx(1e-6, rel=1e-2)


def test_one_level_can_be_changed_alone() -> None:
    system = two_levels(2, 4, 10 * GB, 300 * GB)
    faster = with_bandwidths(system, 2.0, [0])
    assert (faster.link_of((0,)), faster.link_of((0, 0))) == (
        Link(20 * GB, 20 * GB),
        Link(300 * GB, 300 * GB),
    )
    slower = with_latencies(system, lambda seconds: seconds + 1e-6, [1])
    assert (slower.link_of((0,)).latency, slower.link_of((0, 0)).latency) == (0.0, 1e-6)


@pytest.mark.skipif(not H200.exists(), reason="needs ../shared/data")
def test_public_h200_table() -> None:
    """Fitted on rows 2, 4, ..., 20; of the others, at most 8 % on average, and 3 % from 64 MiB."""
    found = calibrate(read_measurements(H200), one_switch(8, 450 * GB))
    assert np.flatnonzero(found.fitted).tolist() == list(range(1, 20, 2))
    assert found.constants.num_parameters <= 7
    overall, large = found.mean_error(), found.mean_error(LARGE_BYTES)
    assert overall is not None
    assert large is not None
    assert 0 < overall <= 0.08
    assert 0 < large <= 0.03
    assert all(math.isfinite(value) and value > 0 for value in found.parameters().values())


def _bandwidth(system: System) -> float:
    link = system.levels[-1].link
    assert link is not None
    return link.bandwidth_out


def _flat(sizes: range) -> list[Measurement]:
    return [Measurement("allreduce", 8, 1 << power, 5e-6 + power * 1e-9) for power in sizes]


def test_rows_that_do_not_tell_the_bandwidth_keep_the_described_one() -> None:
    """Small sizes only: all of their time is latency."""
    found = calibrate(_flat(range(3, 13)), load_system("hgx-h200"))
    assert all(protocol.efficiency <= 1 for protocol in found.system.protocols.values())
    assert _bandwidth(found.system) == _bandwidth(load_system("hgx-h200"))
    assert found.below_bound == ()


def test_rows_that_cannot_be_are_reported_and_raise_no_bandwidth() -> None:
    """As fast for 1 GiB as for 8 bytes."""
    found = calibrate(_flat(range(3, 31)), load_system("hgx-h200"))
    assert _bandwidth(found.system) == _bandwidth(load_system("hgx-h200"))
    assert len(found.below_bound) > 5
    read_system(write_system(found.system))


def test_times_beyond_all_reason_are_left_out() -> None:
    rows = [
        *_flat(range(3, 13)),
        Measurement("allreduce", 8, 64, 1e294),
        Measurement("allreduce", 8, 64, 1e-300),
    ]
    assert len(calibrate(rows, load_system("hgx-h200")).measurements) == 10
