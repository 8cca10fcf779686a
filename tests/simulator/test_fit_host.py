"""Constants of the runtime on one host are found again in times that were made with them."""

from __future__ import annotations

import random

import pytest

from hemiola.collectives import CollectiveKind
from hemiola.errors import FormatError
from hemiola.lab.library_plan import plan_of
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.simulator.calibrate.fit_host import Cores, HostConstants, HostRun, fit_host
from hemiola.tuning.library_plans import LibraryPlans

CORES = Cores(2, 20e9, 1 << 25)
TRUE = HostConstants(0.7, 3.0, 1.4, 12e-6)
SIZES = tuple((64 << 10) << (2 * power) for power in range(6))


def runs(kind: CollectiveKind, ranks: tuple[int, ...], noise: float = 0.0) -> list[HostRun]:
    """What would be measured, give or take some noise."""
    plans, dice = LibraryPlans(), random.Random(1)
    found = []
    for num_ranks in ranks:
        for size in SIZES:
            request = PlanRequest(
                kind, num_ranks, (0,) * num_ranks, size, in_place=kind is CollectiveKind.ALLREDUCE
            )
            bare = HostRun(plans.choose(request).plan, size, 1.0)
            seconds = TRUE.predict(bare, CORES) * (1 + dice.uniform(-noise, noise))
            found.append(HostRun(bare.plan, size, seconds))
    return found


def test_constants_are_found_again() -> None:
    found = fit_host(runs(CollectiveKind.ALLREDUCE, (2, 4)), CORES)
    assert found.memory_part == pytest.approx(TRUE.memory_part, rel=1e-2)
    assert found.own_gain == pytest.approx(TRUE.own_gain, rel=1e-2)
    assert found.shared_gain == pytest.approx(TRUE.shared_gain, rel=1e-2)
    assert found.call_seconds == pytest.approx(TRUE.call_seconds, rel=2e-2)


def test_other_ranks_and_collectives_are_predicted_from_noisy_times() -> None:
    found = fit_host(runs(CollectiveKind.ALLREDUCE, (2, 4), noise=0.1), CORES)
    for run in runs(CollectiveKind.ALLTOALL, (2, 3, 8)):
        assert found.predict(run, CORES) == pytest.approx(run.seconds, rel=0.15)


def test_few_measurements_are_refused() -> None:
    with pytest.raises(FormatError, match="four constants need 6 measurements"):
        fit_host(runs(CollectiveKind.ALLREDUCE, (2,))[:5], CORES)


def test_a_footprint_is_all_buffers_of_all_ranks() -> None:
    assert HostRun(plan_of("allreduce_ring", 4), (1 << 20), 1.0).footprint_bytes == 4 * (1 << 20)
    assert HostRun(plan_of("alltoall_allpairs", 4), (1 << 20), 1.0).footprint_bytes == 8 * (1 << 20)
    assert HostRun(plan_of("allgather_ring", 4), 4 * (1 << 20), 1.0).footprint_bytes == (4 + 16) * (1 << 20)
