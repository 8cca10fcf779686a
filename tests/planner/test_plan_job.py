"""Plans of jobs: what is chosen, what is kept, and what is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hemiola
from hemiola.errors import JobError
from hemiola.planner.compute_time import ComputeTime
from hemiola.planner.job import Job, job_of, read_job
from hemiola.planner.plan_job import plan_job
from hemiola.planner.step_time import JobStepTime
from hemiola.planner.trust import UNSHARED_BAND, GainVerdict, compare
from hemiola.planner.what_if import what_if
from hemiola.planner.write_job_plan import write_job_plan

DEMO = Path(__file__).parents[2] / "demo"
MODEL = {
    "hidden": 8192,
    "layers": 80,
    "heads": 64,
    "kv_heads": 8,
    "ffn": 28672,
    "gated": True,
    "vocab": 128256,
}


def job_70b(axes: str | None = "pp=4,dp=4,tp=8", degrees: str = "auto") -> Job:
    document = {
        "system": "hgx-h100:16",
        "model": MODEL,
        "batch": {"global": 128, "sequence": 4096},
        "training": {"compiled": True},
        "axes": axes,
        "degrees": degrees,
    }
    return job_of(document, Path("job.yaml"))


def step(seconds: float, exposed: float = 0.0) -> JobStepTime:
    return JobStepTime(ComputeTime(seconds / 3, 2 * seconds / 3, 0.0), exposed, 0.0, 0.0)


def test_the_fastest_degrees_that_fit_are_found() -> None:
    answer = plan_job(job_70b()).degrees
    assert answer is not None
    assert answer.yours is not None
    assert answer.gain is not None
    seconds = [score.seconds for score in answer.ranked]
    assert seconds == sorted(seconds)
    assert all(score.memory.fits(80 * 10**9) for score in answer.ranked)
    assert answer.num_too_large > 0, "one device cannot hold the model"
    assert any(score.degrees == answer.yours.degrees for score in answer.ranked)
    assert (answer.chosen is answer.ranked[0]) == (answer.gain.verdict is GainVerdict.CLEAR)


def test_a_job_is_a_file_for_callers() -> None:
    found = hemiola.plan_job(str(DEMO / "job.yaml"), quick=True)
    assert found.to_json()["job"] == "twelve-layers"


def test_given_degrees_are_not_searched() -> None:
    answer = plan_job(job_70b(degrees="as given")).degrees
    assert answer is not None
    assert answer.chosen is answer.yours
    assert len(answer.ranked) == 1


def test_a_gain_within_the_errors_is_a_toss_up_and_shared_errors_cancel() -> None:
    assert compare(step(1.0), step(1.0 - UNSHARED_BAND / 2)).verdict is GainVerdict.TOSS_UP
    assert compare(step(1.0), step(0.999)).verdict is GainVerdict.NONE
    clear = compare(step(1.0), step(0.9))
    assert clear.verdict is GainVerdict.CLEAR
    assert clear.least == pytest.approx(0.1 - UNSHARED_BAND), (
        "both are computation, so its error is on both sides"
    )
    mixed = compare(step(1.0, 0.5), step(1.4, 0.0))
    assert mixed.verdict is GainVerdict.TOSS_UP, (
        "communication against computation: their errors do not cancel"
    )


def test_what_runs_today_stays_where_nothing_is_clearly_faster() -> None:
    first = plan_job(job_70b()).degrees
    assert first is not None
    best = first.ranked[0].degrees
    axes = ",".join(f"{axis.name}={axis.size}" for axis in best.axes)
    again = plan_job(job_70b(axes)).degrees
    assert again is not None
    assert again.chosen is again.yours
    assert again.chosen.degrees == best


def test_a_changed_machine_gives_another_answer() -> None:
    job = job_70b()
    fewer = what_if(job, "host 3 lost")
    assert fewer.system.num_ranks == 120
    assert fewer.axes is None
    assert fewer.search_degrees
    assert what_if(job, "64 nodes").system.num_ranks == 512
    faster = what_if(job, "800Gb/s")
    assert faster.axes == job.axes
    link, before = faster.system.levels[0].link, job.system.levels[0].link
    assert link is not None
    assert before is not None
    assert link.bandwidth_out == pytest.approx(2 * before.bandwidth_out)
    for words in ("a miracle", "host 99 lost", "0 nodes"):
        with pytest.raises(JobError, match="what-if"):
            what_if(job, words)


def test_a_lost_host_of_an_uneven_system_is_missing() -> None:
    job = read_job(str(DEMO / "job_uneven.yaml"))
    with pytest.raises(JobError, match="the axes need 32 devices; the changed system has 24"):
        what_if(job, "host 0 lost")


def test_a_plan_is_a_folder_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    job = read_job(str(DEMO / "job_uneven.yaml"))
    plan = plan_job(job)
    assert plan.collectives is not None
    assert plan.vendor_seconds is not None
    assert plan.chosen_seconds is not None
    assert plan.chosen_seconds <= plan.vendor_seconds
    names = [[path.relative_to(folder) for path in write_job_plan(plan_job(job), folder)] for folder in (tmp_path / "a", tmp_path / "b")]  # fmt: skip
    assert names[0] == names[1]
    for name in names[0]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    found = json.loads((tmp_path / "a" / "job_plan.json").read_text())
    assert found["version"] == 1
    placement = json.loads((tmp_path / "a" / "placement" / "placement.json").read_text())
    assert sorted(placement["permutation"]) == list(range(32))
    assert np.array_equal(plan.applied.grid.ravel(), placement["permutation"])


def test_nothing_is_written_for_collectives_that_save_nothing(tmp_path: Path) -> None:
    plan = plan_job(read_job(str(DEMO / "job_uneven.yaml")))
    same = replace(plan, chosen_seconds=plan.vendor_seconds)
    assert not same.applied_collectives
    write_job_plan(plan, tmp_path)
    write_job_plan(same, tmp_path)
    assert not list((tmp_path / "collectives").glob("*.plan")), "files of an earlier plan are gone"
    assert "no files are written" in (tmp_path / "README.md").read_text()


def test_models_on_uneven_systems_are_refused() -> None:
    even = job_70b()
    broken = replace(even.system, missing=frozenset({(0,)}), host_names=())
    with pytest.raises(JobError, match="uneven"):
        plan_job(replace(even, system=broken, axes=None, search_degrees=True))
