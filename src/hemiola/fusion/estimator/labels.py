"""LabelSet: graphs, the measured times of their operators and of groups of them, and other groupings of the same operators."""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hemiola.errors import FormatError
from hemiola.fusion.estimator.canonical import GroupHasher
from hemiola.fusion.estimator.sample_groups import GroupFamily
from hemiola.fusion.graph import OpGraph, graph_from_json
from hemiola.fusion.operator_times import OperatorTime, OperatorTimes
from hemiola.fusion.plan import Group

VERSION = 1
CLEAN_SPREAD = 0.05
"""Labels whose processes differ by no more count as clean."""


@dataclass(frozen=True, slots=True)
class GroupLabel:
    """The measured time of one group, compiled."""

    graph: int
    group: Group
    processes: tuple[float, ...]
    """Seconds that each process found, as if the machine had been as fast as at its best."""

    @property
    def seconds(self) -> float:
        """The median over processes."""
        return statistics.median(self.processes)

    @property
    def spread(self) -> float:
        """Half of the distance between the fastest and the slowest process, relative to the median."""
        return (max(self.processes) - min(self.processes)) / 2 / self.seconds

    @property
    def is_clean(self) -> bool:
        """Whether at least three processes agree."""
        return len(self.processes) >= 3 and self.spread <= CLEAN_SPREAD


@dataclass(frozen=True)
class LabelledGraph:
    """A graph and how long its operators take alone."""

    model: str
    size: str
    graph: OpGraph
    operator_times: OperatorTimes
    families: tuple[GroupFamily, ...]

    @cached_property
    def hasher(self) -> GroupHasher:
        """Knows isomorphic groups."""
        return GroupHasher(self.graph)


@dataclass(frozen=True)
class LabelSet:
    """All of it. Of isomorphic groups only one is a label."""

    graphs: tuple[LabelledGraph, ...]
    labels: tuple[GroupLabel, ...]
    machine: str

    @cached_property
    def by_hash(self) -> Mapping[int, int]:
        """The number of the label of each kind of group."""
        return {self.graphs[one.graph].hasher.hash(one.group): at for at, one in enumerate(self.labels)}

    def find(self, graph: int, group: Group) -> GroupLabel | None:
        """The label of a group or of one that is isomorphic to it."""
        at = self.by_hash.get(self.graphs[graph].hasher.hash(group))
        return None if at is None else self.labels[at]


def write_labels(path: Path, labels: LabelSet) -> None:
    """As compressed JSON, the same bytes for the same labels."""
    document = {
        "format": "hemiola-fusion-labels",
        "version": VERSION,
        "machine": labels.machine,
        "graphs": [_graph_to_json(one) for one in labels.graphs],
        "labels": [
            [one.graph, _ranges(one.group), [_digits(value) for value in one.processes]]
            for one in labels.labels
        ],
    }
    text = json.dumps(document, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read_labels(path: Path) -> LabelSet:
    """The inverse of `write_labels`."""
    try:
        document = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(
            f"{path}: this is no file of labels ({error}); hemiola estimator generate makes one"
        ) from None
    if not isinstance(document, dict) or document.get("format") != "hemiola-fusion-labels":
        raise FormatError(
            f"{path}: this is no file of labels: its field 'format' is not 'hemiola-fusion-labels'"
        )
    if document.get("version") != VERSION:
        raise FormatError(
            f"{path}: labels of version {document.get('version')!r}; this Hemiola reads version {VERSION}"
        )
    graphs = tuple(_graph_from_json(one) for one in document["graphs"])
    labels = tuple(
        GroupLabel(int(graph), _expand(group), tuple(map(float, seconds)))
        for graph, group, seconds in document["labels"]
    )
    return LabelSet(graphs, labels, str(document["machine"]))


def _graph_to_json(one: LabelledGraph) -> dict[str, Any]:
    times = one.operator_times.by_signature
    return {
        "model": one.model,
        "size": one.size,
        "graph": one.graph.to_json(),
        "operators": {name: [_digits(time.seconds), _digits(time.spread)] for name, time in times.items()},
        "families": [
            [[_ranges(group) for group in way] for way in family.groupings] for family in one.families
        ],
    }


def _graph_from_json(fields: dict[str, Any]) -> LabelledGraph:
    times = {name: OperatorTime(*map(float, pair)) for name, pair in fields["operators"].items()}
    families = tuple(
        GroupFamily(tuple(tuple(_expand(group) for group in way) for way in ways))
        for ways in fields["families"]
    )
    graph = graph_from_json(fields["graph"])
    return LabelledGraph(str(fields["model"]), str(fields["size"]), graph, OperatorTimes(times), families)


def _digits(value: float) -> float:
    """Four digits are more than a measurement has."""
    return float(f"{value:.4g}")


def _ranges(group: Group) -> list[int]:
    """Begin and length of every run of consecutive operators, one after another."""
    runs: list[int] = []
    for one in group:
        if runs and runs[-2] + runs[-1] == one:
            runs[-1] += 1
        else:
            runs += [one, 1]
    return runs


def _expand(runs: Iterable[int]) -> Group:
    numbers = list(runs)
    return tuple(
        one
        for begin, length in zip(numbers[::2], numbers[1::2], strict=True)
        for one in range(begin, begin + length)
    )
