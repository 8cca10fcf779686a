"""The plans that other runtimes ship, as their own files, on real data."""

from __future__ import annotations

from pathlib import Path

import pytest

from hemiola.ir.formats import read_plan
from hemiola.runtime.checking.trial import Trial, fit_share
from hemiola.runtime.launch import RankKind
from runtime.campaigns import Job, run_jobs
from subjects import FILES

PATHS = sorted(FILES.glob("*.xml"))
NUM_FILES = 8

pytestmark = pytest.mark.skipif(not PATHS, reason=f"the files of other runtimes are not at {FILES}")


def jobs_of(path: Path) -> list[Job]:
    """Sizes that divide and that do not, several types, and for sums several operators."""
    plan = read_plan(path)
    trials = [
        Trial(plan.collective, fit_share(plan.collective, elements), element, op)
        for elements, element, op in (
            (0, "float32", "sum"),
            (1, "int64", "max"),
            (1000, "int32", "sum"),
            (4099, "bfloat16", "sum"),
            (65_536, "float32", "avg"),
            (100_003, "float16", "min"),
        )
    ]
    return [Job(f"{path.name}: {trial.share} {trial.element}", plan, trial) for trial in trials]


def test_all_files_are_there() -> None:
    assert len(PATHS) == NUM_FILES


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_file_runs_and_checks(path: Path) -> None:
    jobs = jobs_of(path)
    run_jobs(jobs[0].plan.num_ranks, "threads", jobs)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_file_runs_and_checks_in_processes(path: Path) -> None:
    kind: RankKind = "processes"
    jobs = jobs_of(path)
    run_jobs(jobs[0].plan.num_ranks, kind, jobs)
