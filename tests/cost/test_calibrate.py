"""Calibration: constants that are known are found again, wrong rows do little, and predictions are what the verbs print."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hemiola.collectives import CollectiveKind
from hemiola.cost.calibrate.calibrate import LARGE_BYTES, calibrate, constants_of
from hemiola.cost.calibrate.fit_replay import fit_replay
from hemiola.cost.calibrate.fitted_constant import ROWS_PER_CONSTANT, FittedConstant
from hemiola.cost.calibrate.measured_run import MeasuredRun
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.errors import FormatError
from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.presets import load_system
from hemiola.topology.system import System
from hemiola.topology.write_system import write_system
from simulator.scenes import library_plan

SIZES = [1 << exponent for exponent in range(12, 30, 2)]
ALLREDUCE = CollectiveKind.ALLREDUCE


def runs_of(system: System, *, factor: float = 1.0) -> list[MeasuredRun]:
    """What a machine with these constants would have shown, for three plans."""
    names = ("allreduce_ring", "allreduce_allpairs")
    plans = [library_plan(name, "ranks=8 in_place=true") for name in names]
    found = []
    for plan in plans:
        for size in SIZES:
            run = MeasuredRun(ALLREDUCE, 8, size, 1.0, plan, plan.name)
            found.append(replace(run, seconds=run.predict(system) * factor))
    return found


def truth() -> System:
    """An MI300X whose launch, threadblocks and links are not those of the preset."""
    preset = load_system("mi300x")
    simple = replace(
        preset.protocols["Simple"], launch_seconds=15e-6, efficiency=0.6, send_bandwidth=15e9, latency=4e-6
    )
    return replace(preset, protocols={**preset.protocols, "Simple": simple})


def test_times_are_found_again() -> None:
    """Constants may trade against each other, but rows that were not fitted are predicted."""
    found = calibrate(runs_of(truth()), load_system("mi300x"))
    error = found.mean_error()
    assert error is not None
    assert error < 0.03
    assert found.system.protocols["Simple"].launch_seconds == pytest.approx(15e-6, rel=0.25)


def test_outliers_do_little() -> None:
    runs = runs_of(truth())
    wrong = [replace(run, seconds=run.seconds * (10 if k in (3, 9) else 1)) for k, run in enumerate(runs)]
    found = calibrate(wrong, load_system("mi300x"))
    right = [run.predict(found.system) / run.seconds - 1 for run in runs]
    assert np.median(np.abs(right)) < 0.05


def test_at_most_one_constant_for_four_rows() -> None:
    system = load_system("mi300x")
    runs = runs_of(system)
    for number in (4, 8, 12, 18):
        assert 1 <= len(constants_of(runs[:number], system)) <= max(1, number // ROWS_PER_CONSTANT)


def test_every_second_size_is_held_out_in_and_out_of_place_together() -> None:
    runs = runs_of(load_system("mi300x"))
    both = [replace(run, in_place=place) for run in runs for place in (True, False)]
    found = calibrate(both, load_system("mi300x"))
    by_size: dict[tuple[str, int], set[bool]] = {}
    for run, fitted in zip(found.runs, found.fitted.tolist(), strict=True):
        by_size.setdefault((run.name, run.num_bytes), set()).add(fitted)
    assert all(len(seen) == 1 for seen in by_size.values())
    assert found.fitted.sum() == 2 * 2 * (len(SIZES) // 2)
    large = found.mean_error(LARGE_BYTES)
    assert large is not None
    assert math.isfinite(large)


def test_predictions_are_those_of_the_written_system() -> None:
    found = calibrate(runs_of(truth()), load_system("mi300x"))
    again = read_system(write_system(found.system))
    for run, predicted in zip(found.runs, found.predicted.tolist(), strict=True):
        assert run.plan is not None
        assert replay_seconds(run.plan, run.num_bytes, run.request(again)) == predicted


def test_a_constant_that_nothing_tells_stays() -> None:
    system = load_system("mi300x")
    constant = FittedConstant(("nic_seconds",), ("Simple",))
    fitted = fit_replay(runs_of(truth())[:6], system, [constant])
    assert fitted.protocols["Simple"].nic_seconds == pytest.approx(6e-6, rel=1e-3)


def test_links_better_than_described_are_raised() -> None:
    slow = load_system("mi300x")
    found = calibrate(runs_of(slow, factor=0.02), slow)
    assert found.raised > 1


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(FormatError, match="4 measured times or more, and there are 0"):
        calibrate([], load_system("mi300x"))
    runs = [replace(run, seconds=1e9) for run in runs_of(load_system("mi300x"))]
    with pytest.raises(FormatError, match="there are 0"):
        calibrate(runs, load_system("mi300x"))


def test_vendor_rows_need_no_plan() -> None:
    system = load_system("hgx-h200")
    runs = [MeasuredRun(ALLREDUCE, 8, size, 1.0) for size in SIZES]
    known = [replace(run, seconds=2 * run.predict(system)) for run in runs]
    found = calibrate(known, system)
    error = found.mean_error()
    assert error is not None
    assert error < 0.25
