"""Groups are measured as they are, runs go on where they were interrupted, and profiles are kept."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hemiola.errors import FusionError
from hemiola.fusion.estimator.labels import read_labels
from hemiola.fusion.graph import WorkKind
from hemiola.integrations.torch.capture import CapturedStep, capture
from hemiola.integrations.torch.measuring import generate_labels as generate_module
from hemiola.integrations.torch.measuring.generate_labels import LabelOrder, generate_labels, given_to
from hemiola.integrations.torch.measuring.generate_labels import _capture as capture_model
from hemiola.integrations.torch.measuring.group_task import GroupTask, integer_values, make_task
from hemiola.integrations.torch.measuring.journal import Journal, JournalEntry
from hemiola.integrations.torch.measuring.processes import Batch, LocalWorkers, Measured, RayWorkers
from hemiola.integrations.torch.measuring.profile_operators import profile_operators
from hemiola.integrations.torch.measuring.timing import ReferenceKernel, Timing, time_calls
from hemiola.integrations.torch.models.library import make_step
from hemiola.integrations.torch.models.training_step import ModelSize, TrainingStep


class _Small(nn.Module):
    """An embedding, a split and a product: indices, views of several parts and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.dense = nn.Linear(4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        first, second = self.table(tokens).chunk(2, dim=-1)
        scores: Tensor = self.dense(torch.where(first > 0, torch.exp(second), 0.5))
        return scores


@pytest.fixture(autouse=True)
def captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of these tests capture the same step again and again."""
    monkeypatch.setattr(generate_module, "_capture", _captured)


@cache
def _captured(model: str, size: ModelSize) -> tuple[CapturedStep, list[Tensor]]:
    return capture_model(model, size)


def small_step() -> tuple[CapturedStep, list[Tensor]]:
    torch.manual_seed(0)
    batch = torch.randint(10, (6,)), torch.randint(3, (6,))
    training = TrainingStep(_Small(), nn.functional.cross_entropy, batch)
    step = capture(training.module, training.loss, training.batch)
    return step, given_to(step, training)


class _InstantWorkers:
    """Measure nothing, and stop like a killed run after some batches."""

    def __init__(self, num_batches: int | None = None) -> None:
        self.num_tasks = 0
        self._left = num_batches

    def measure(self, batches: Sequence[Batch]) -> Iterator[Measured]:
        for number, batch in enumerate(batches):
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise KeyboardInterrupt
            self.num_tasks += len(batch)
            yield number, [Timing(1e-5 * len(task.graph.nodes), 0.01, 1e-4) for task in batch]


def quiet(done: int, total: int) -> None:
    assert 0 < done <= total


def test_a_task_survives_pickling_and_gives_what_the_group_gives() -> None:
    step, given = small_step()
    integers = integer_values(step, given)
    for number, operator in enumerate(step.graph.operators):
        if operator.work is WorkKind.RANDOM:
            continue
        task: GroupTask = pickle.loads(pickle.dumps(make_task(step, (number,), integers)))
        outputs = task.prepare()()
        sizes = [one.numel() * one.element_size() for one in outputs]
        made = [step.graph.tensors[tensor].num_bytes for tensor in operator.outputs]
        assert sorted(sizes) == sorted(made)


@pytest.mark.slow
def test_a_compiled_task_computes_what_its_graph_computes() -> None:
    step, given = small_step()
    task = make_task(step, tuple(range(len(step.graph.operators))), integer_values(step, given))
    again: GroupTask = pickle.loads(pickle.dumps(task))
    inputs = [one.make() for one in task.inputs]
    for found, expected in zip(again.prepare()(), task.graph.rebuild()(*inputs), strict=True):
        torch.testing.assert_close(found, expected)


def test_indices_keep_their_values_and_scalars_their_form() -> None:
    step, given = small_step()
    integers = integer_values(step, given)
    tasks = [make_task(step, (one,), integers) for one in range(len(step.graph.operators))]
    tokens = [
        one.values for task in tasks for one in task.inputs if one.dtype == "int64" and one.shape == (6,)
    ]
    assert any(values is not None and np.array_equal(values, given[-2].numpy()) for values in tokens)
    for one in (one for task in tasks for one in task.inputs):
        assert tuple(one.make().shape) == one.shape
        assert tuple(one.make().stride()) == one.strides


def test_short_calls_are_timed_in_blocks() -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1

    found = time_calls(call, ReferenceKernel())
    assert calls > 1000
    assert 0 < found.seconds < 1e-4
    assert found.reference_seconds > 0


def test_a_journal_forgets_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "measured.jsonl"
    entries = [
        JournalEntry("g", (1, 2), 0, Timing(1e-5, 0.1, 1e-4)),
        JournalEntry("g", (3,), 1, "RuntimeError: no"),
    ]
    Journal(path).add(entries)
    path.write_text(path.read_text() + '["g", [4', "utf-8")
    assert Journal(path).entries == entries
    Journal(path).add(entries[:1])
    assert Journal(path).entries == [*entries, entries[0]]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    order = LabelOrder(("llama",), (ModelSize.SMALL,), 3)
    whole = _InstantWorkers()
    expected = generate_labels(order, tmp_path / "whole", whole, quiet)
    interrupted = _InstantWorkers(4)
    with pytest.raises(KeyboardInterrupt):
        generate_labels(order, tmp_path / "parts", interrupted, quiet)
    second = _InstantWorkers()
    found = generate_labels(order, tmp_path / "parts", second, quiet)
    assert interrupted.num_tasks + second.num_tasks == whole.num_tasks
    assert found == expected
    third = _InstantWorkers()
    generate_labels(order, tmp_path / "parts", third, quiet)
    assert third.num_tasks == 0


def test_failed_groups_have_no_label_and_are_tried_again(tmp_path: Path) -> None:
    class Failing(_InstantWorkers):
        def measure(self, batches: Sequence[Batch]) -> Iterator[Measured]:
            for number, outcomes in super().measure(batches):
                yield number, ["RuntimeError: no compiler" for _ in outcomes]

    order = LabelOrder(("llama",), (ModelSize.SMALL,), 1)
    assert not generate_labels(order, tmp_path, Failing(), quiet).labels
    assert generate_labels(order, tmp_path, _InstantWorkers(), quiet).labels


def test_isomorphic_groups_of_two_models_are_one_label(tmp_path: Path) -> None:
    order = LabelOrder(("llama", "llama"), (ModelSize.SMALL,), 3)
    labels = generate_labels(order, tmp_path, _InstantWorkers(), quiet)
    assert {one.graph for one in labels.labels} == {0}
    assert len(labels.by_hash) == len(labels.labels)
    family = labels.graphs[1].families[0]
    assert labels.find(1, family.groupings[0][0]) is not None


@pytest.mark.slow
def test_a_profile_is_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    step, given = small_step()
    first = profile_operators(step, given, progress=quiet)
    assert first.num_measured == len({one.signature for one in step.graph.operators})
    assert (first.times.seconds(step.graph) > 0).all()
    assert first.reference_spread >= 0
    again = profile_operators(step, given)
    assert again.num_measured == 0
    assert again.times == first.times


def test_an_operator_that_cannot_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Failing(_InstantWorkers):
        def measure(self, batches: Sequence[Batch]) -> Iterator[Measured]:
            for number, outcomes in super().measure(batches):
                yield number, ["RuntimeError: out of memory" for _ in outcomes]

    step, given = small_step()
    with pytest.raises(
        FusionError, match=r"operator 'embedding' .* cannot be run alone: RuntimeError: out of memory"
    ):
        profile_operators(step, given, workers=Failing())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_killed_run_of_the_verb_is_resumed(tmp_path: Path) -> None:
    """A real one: killed after its first measurements, then run to its end."""
    command = [
        sys.executable, "-m", "hemiola", "estimator", "generate", "-o", str(tmp_path), "--models", "llama", "--sizes", "small",
        "--families", "1", "--json",
    ]  # fmt: skip
    journal = tmp_path / "measured.jsonl"
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 240
        while not (journal.exists() and journal.read_text().count("\n") >= 16):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.2)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = journal.read_text("utf-8").splitlines()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = journal.read_text("utf-8").splitlines()
    assert after[: len(before) - 1] == before[:-1]
    keys = [json.dumps(json.loads(line)[:3]) for line in after]
    assert len(set(keys)) == len(keys)
    assert json.loads(done.stdout)["labels"] == len(read_labels(tmp_path / "labels.json.gz").labels) > 0


@pytest.mark.slow
def test_a_local_ray_cluster_measures() -> None:
    pytest.importorskip("ray")
    step, given = small_step()
    integers = integer_values(step, given)
    tasks = [make_task(step, (one,), integers) for one in range(3)]
    outcomes = dict(RayWorkers().measure([tasks, tasks[:1]]))
    assert sorted(outcomes) == [0, 1]
    assert [len(outcomes[one]) for one in (0, 1)] == [3, 1]
    assert all(isinstance(one, Timing) for found in outcomes.values() for one in found)


def test_no_jobs_are_refused() -> None:
    with pytest.raises(FusionError, match="at least one job measures; found 0"):
        LocalWorkers(0)


def test_integer_values_leave_the_generator_alone() -> None:
    training = make_step("vgg19", ModelSize.SMALL)
    step = capture(training.module, training.loss, training.batch)
    torch.manual_seed(2)
    expected = torch.rand(3)
    torch.manual_seed(2)
    integer_values(step, given_to(step, training))
    assert torch.equal(torch.rand(3), expected)
