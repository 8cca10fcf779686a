"""What calibrate predicts, simulate prints and tune compares is one number, for plans and for the vendor's own algorithms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.invoke import answer
from hemiola.algorithms.library import ALGORITHMS as LIBRARY
from hemiola.collectives import CollectiveKind
from hemiola.cost.calibrate.fit_replay import rounded
from hemiola.cost.calibrate.measured_run import MeasuredRun
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.vendor.vendor_seconds import vendor_time
from hemiola.ir.formats.native import write_native
from hemiola.ir.plan import Protocol
from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.presets import load_system
from hemiola.topology.system import System
from hemiola.topology.write_system import write_system
from hemiola.tuning.candidate import Candidate
from hemiola.tuning.candidate_space import CandidateSpace
from hemiola.tuning.plan_search import PlanSearch

SYSTEMS = ("mi300x", "hgx-h200", "dgx-a100", "azure-ndv4", "hgx-b200")
ALGORITHMS = ("allreduce_ring", "allreduce_allpairs", "allgather_ring", "reducescatter_allpairs")
SIZES = (32 << 10, 3 << 20, 200 << 20)
CASES = [(system, name, size) for system in SYSTEMS for name in ALGORITHMS for size in SIZES]


def calibrated(name: str) -> System:
    """A preset with constants as a fit would leave them, read back from its file."""
    system = load_system(name)
    costs = {
        one: replace(cost, launch_seconds=cost.launch_seconds * 1.37, latency=cost.latency * 1.19)
        for one, cost in system.protocols.items()
    }
    return read_system(write_system(rounded(replace(system, protocols=costs))))


@pytest.mark.parametrize(("system", "algorithm", "num_bytes"), CASES)
def test_calibrate_simulate_and_tune_say_one_number(
    tmp_path: Path, system: str, algorithm: str, num_bytes: int
) -> None:
    machine = calibrated(system)
    assert len(CASES) == 60
    protocol = list(Protocol)[CASES.index((system, algorithm, num_bytes)) % 3]
    kind = CandidateSpace(CollectiveRequest.of_system(_kind(algorithm), machine))
    tuned = PlanSearch(kind).replayed(Candidate(algorithm, (), protocol, instances=2), num_bytes)
    run = MeasuredRun(tuned.plan.collective.kind, machine.num_ranks, num_bytes, 1.0, tuned.plan, algorithm)
    assert run.predict(machine) == tuned.seconds
    plan, described = tmp_path / "it.plan", tmp_path / "it.yaml"
    write_native(tuned.plan, plan)
    described.write_text(write_system(machine))
    said = answer("simulate", plan, "--system", described, "--bytes", num_bytes)
    assert said["seconds"] == tuned.seconds


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_default_of_tune_is_the_vendors_own(system: str) -> None:
    machine = calibrated(system)
    request = CollectiveRequest.of_system(_kind("allreduce_ring"), machine)
    for size in SIZES:
        own = vendor_time(request, size)
        default = PlanSearch(CandidateSpace(request)).default(size)
        assert (default.seconds, default.name) == (own.seconds, str(own.choice))
        assert MeasuredRun(request.kind, 8, size, 1.0).predict(machine) == own.seconds


def _kind(algorithm: str) -> CollectiveKind:
    return LIBRARY[algorithm].kind
