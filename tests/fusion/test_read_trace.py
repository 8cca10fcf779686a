"""Traces of torch's profiler: steps, operators, gradients, collectives and exposed time, of GPU jobs and of jobs here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fusion.traces import event, gpu_step
from hemiola.errors import FusionError
from hemiola.fusion.graph import StepPhase
from hemiola.fusion.read_trace import TracedTimes, read_trace


def written(folder: Path, document: Any, name: str = "trace.json") -> Path:
    path = folder / name
    data = json.dumps(document).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_gpu_step_is_read(tmp_path: Path, name: str) -> None:
    step = read_trace(written(tmp_path, gpu_step(), name))
    assert [one.kind for one in step.graph.operators] == ["fwd1", "fwd2", "bwd2", "wgrad2", "wgrad1"]
    assert [one.phase for one in step.graph.operators] == [StepPhase.FORWARD] * 2 + [StepPhase.BACKWARD] * 3
    # Gaps of the launch belong to the operator before; standing still from 600 to 1000 is exposed, the 10 us after it are not.
    assert step.operator_seconds == pytest.approx([100e-6] * 4 + [110e-6])
    assert step.exposed_seconds == pytest.approx(400e-6)
    assert step.optimizer_seconds == pytest.approx(190e-6)
    assert step.seconds == pytest.approx(1200e-6)
    assert TracedTimes(step).seconds([(0, 1), (4,)]) == pytest.approx([200e-6, 110e-6])


def test_gradients_are_there_when_the_last_kernel_before_them_ends(tmp_path: Path) -> None:
    step = read_trace(written(tmp_path, gpu_step()))
    made = [step.graph.producers[one.tensor] for one in step.graph.gradients]
    assert [step.graph.operators[one].kind for one in made] == ["wgrad2", "wgrad1"]
    assert [one.num_bytes for one in step.graph.gradients] == [1_000_000, 2_000]


def test_bytes_of_collectives_come_from_the_kernel_or_its_call(tmp_path: Path) -> None:
    step = read_trace(written(tmp_path, gpu_step()))
    assert [one.num_bytes for one in step.collectives] == [1_000_000, 2_000]
    assert [one.seconds for one in step.collectives] == pytest.approx([305e-6, 200e-6])


def test_the_step_of_median_length_is_taken(tmp_path: Path) -> None:
    document = gpu_step()
    later = [{**row, "ts": row["ts"] + 10_000} for row in document["traceEvents"]]
    later[0] = event("ProfilerStep#6", "user_annotation", 10_000, 9_000)
    even_later = [{**row, "ts": row["ts"] + 30_000} for row in document["traceEvents"]]
    even_later[0] = event("ProfilerStep#7", "user_annotation", 30_000, 1_300)
    step = read_trace(written(tmp_path, {"traceEvents": [*document["traceEvents"], *later, *even_later]}))
    assert step.seconds == pytest.approx(1300e-6)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([1, 2], "no event with a duration"),
        ({"traceEvents": 3}, "no list 'traceEvents'"),
        ({"traceEvents": [{"ph": "X", "name": "a", "ts": "soon"}]}, "event 0 has no name, or no time"),
        ({"traceEvents": [event("a", "kernel", 0, 1)]}, "no torch::autograd::AccumulateGrad"),
        ({"traceEvents": [event("a", "python", 0, 1)]}, "has no operators"),
        (
            {"traceEvents": [event("a", "kernel", 0, 1), event("torch::autograd::AccumulateGrad", "cpu_op", 0, 1)]},
            "record_shapes=True",
        ),
    ],
)  # fmt: skip
def test_what_is_no_trace_of_a_step_gets_one_sentence(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(FusionError, match=message):
        read_trace(written(tmp_path, document))


def test_broken_files_get_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json.gz"
    broken.write_bytes(gzip.compress(b"[" * 1000)[:-9])
    with pytest.raises(FusionError, match="cannot be read"):
        read_trace(broken)
    deep = tmp_path / "deep.json"
    deep.write_bytes(b"[" * 100_000)
    with pytest.raises(FusionError, match="not JSON"):
        read_trace(deep)
