"""generate_labels: measured times of random groups of many steps, for training and judging the estimator."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from hemiola.fusion.estimator.labels import GroupLabel, LabelledGraph, LabelSet
from hemiola.fusion.estimator.sample_groups import GroupFamily, sample_families
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.operator_times import OperatorTime, OperatorTimes, summarize
from hemiola.fusion.plan import Group
from hemiola.integrations.torch.capture import CapturedStep, capture
from hemiola.integrations.torch.measuring.device import describe_device
from hemiola.integrations.torch.measuring.group_task import integer_values, make_task
from hemiola.integrations.torch.measuring.journal import Journal, JournalEntry
from hemiola.integrations.torch.measuring.processes import MeasuringWorkers
from hemiola.integrations.torch.measuring.timing import Timing
from hemiola.integrations.torch.models.library import make_step
from hemiola.integrations.torch.models.training_step import ModelSize, TrainingStep

NUM_PROCESSES = 3
"""That measure every group, each at another time."""
BATCH_GROUPS = 16
"""Groups that one process measures; what a kill costs at most, a job."""


@dataclass(frozen=True, slots=True)
class LabelOrder:
    """What is to be measured."""

    models: tuple[str, ...]
    sizes: tuple[ModelSize, ...]
    num_families: int
    """Of every model in every size; a larger number continues a smaller one."""
    seed: int = 14


@dataclass(frozen=True)
class _Planned:
    """One model in one size: which groups are measured."""

    model: str
    size: ModelSize
    step: CapturedStep
    given: list[Tensor]
    families: tuple[GroupFamily, ...]
    groups: tuple[Group, ...]
    """Single operators, one of each signature, and of the families one of each kind that no graph before had."""


def given_to(step: CapturedStep, training: TrainingStep) -> list[Tensor]:
    """What the traced graph takes: parameters, buffers and the batch."""
    parameters = dict(training.module.named_parameters(remove_duplicate=False))
    buffers = dict(training.module.named_buffers())
    first = [parameters[name].detach() for name in step.parameters]
    return [*first, *(buffers[name] for name in step.buffers), *training.batch]


def generate_labels(
    order: LabelOrder, folder: Path, workers: MeasuringWorkers, progress: Callable[[int, int], None]
) -> LabelSet:
    """Measure what the folder's journal does not have yet, and give all labels of the order."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder / "measured.jsonl")
    known = set[int]()
    planned = [_plan(order, model, size, known) for model in order.models for size in order.sizes]
    total, done = NUM_PROCESSES * sum(len(one.groups) for one in planned), 0
    with _own_compiler_cache():
        for one in planned:
            missing = _missing(one, journal.entries)
            done += NUM_PROCESSES * len(one.groups) - sum(map(len, missing))
            for entries in _measure(one, missing, workers):
                journal.add(entries)
                done += len(entries)
                progress(done, total)
    return collect_labels(planned, journal.entries)


@contextmanager
def _own_compiler_cache() -> Iterator[None]:
    """Every group is compiled once; the other processes load it."""
    with tempfile.TemporaryDirectory(prefix="hemiola-labels-") as folder:
        settings = {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        before = {name: os.environ.get(name) for name in settings}
        os.environ |= settings
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _capture(model: str, size: ModelSize) -> tuple[CapturedStep, list[Tensor]]:
    training = make_step(model, size)
    step = capture(training.module, training.loss, training.batch, name=f"{model}-{size}")
    return step, given_to(step, training)


def _plan(order: LabelOrder, model: str, size: ModelSize, known: set[int]) -> _Planned:
    step, given = _capture(model, size)
    families = tuple(sample_families(step.graph, order.num_families, order.seed))
    labelled = LabelledGraph(model, size, step.graph, OperatorTimes({}), families)
    groups = [*first_operators(step.graph)]
    for family in families:
        for group in (group for way in family.groupings for group in way if len(group) > 1):
            key = labelled.hasher.hash(group)
            if key not in known:
                known.add(key)
                groups.append(group)
    return _Planned(model, size, step, given, families, tuple(groups))


def measured_key(graph: OpGraph) -> str:
    """Of a graph: all that the times of its groups depend on, and nothing else that may change between versions."""
    operators = [[one.signature, one.inputs, one.outputs] for one in graph.operators]
    text = json.dumps([operators, sorted(graph.leaving)], separators=(",", ":"))
    return f"{graph.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def first_operators(graph: OpGraph) -> list[Group]:
    """The first operator of every signature, each as a group of its own."""
    first: dict[str, int] = {}
    for number, one in enumerate(graph.operators):
        first.setdefault(one.signature, number)
    return [(number,) for number in first.values()]


def _missing(planned: _Planned, entries: Iterable[JournalEntry]) -> list[list[Group]]:
    """What the journal lacks of one graph, by process; what failed is tried again by every run."""
    key = measured_key(planned.step.graph)
    have = {
        (one.group, one.process) for one in entries if one.graph == key and isinstance(one.outcome, Timing)
    }
    return [
        [group for group in planned.groups if (group, process) not in have]
        for process in range(NUM_PROCESSES)
    ]


def _measure(
    planned: _Planned, missing: list[list[Group]], workers: MeasuringWorkers
) -> Iterator[list[JournalEntry]]:
    """Process after process, in batches."""
    key = measured_key(planned.step.graph)
    integers = integer_values(planned.step, planned.given) if any(missing) else {}
    for process, groups in enumerate(missing):
        batches = [groups[at : at + BATCH_GROUPS] for at in range(0, len(groups), BATCH_GROUPS)]
        tasks = [[make_task(planned.step, group, integers) for group in batch] for batch in batches]
        for number, outcomes in workers.measure(tasks):
            yield [
                JournalEntry(key, group, process, outcome)
                for group, outcome in zip(batches[number], outcomes, strict=True)
            ]


def collect_labels(planned: Sequence[_Planned], entries: Iterable[JournalEntry]) -> LabelSet:
    """The labels of what was measured; groups that could not be compiled have none."""
    found: Mapping[tuple[str, Group], list[Timing]] = defaultdict(list)
    for entry in entries:
        if isinstance(entry.outcome, Timing):
            found[entry.graph, entry.group].append(entry.outcome)
    best = min((timing.reference_seconds for some in found.values() for timing in some), default=1.0)
    graphs, labels = [], []
    for number, one in enumerate(planned):
        key = measured_key(one.step.graph)
        times: dict[str, OperatorTime] = {}
        for group in one.groups:
            seconds = [at_best(timing, best) for timing in found.get((key, group), ())]
            if seconds and len(group) == 1:
                times[one.step.graph.operators[group[0]].signature] = summarize(seconds)
            elif seconds:
                labels.append(GroupLabel(number, group, tuple(seconds)))
        graphs.append(LabelledGraph(one.model, one.size, one.step.graph, OperatorTimes(times), one.families))
    return LabelSet(tuple(graphs), tuple(labels), describe_device())


def at_best(timing: Timing, best_reference: float) -> float:
    """The time as it would have been had the reference kernel beside it been as fast as the fastest."""
    return timing.seconds * best_reference / timing.reference_seconds
