"""Features of the operators of a part, for the network: what they are, how much they do, and what the part is like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hemiola.fusion.estimator.amounts import NUM_CLASSES, PartAmounts
from hemiola.fusion.estimator.operator_facts import (
    LOOP_NAMES,
    Integers,
    Numbers,
    OperatorFacts,
    operator_facts,
)
from hemiola.fusion.estimator.parts import GroupSplitter
from hemiola.fusion.estimator.prior import GroupAmounts
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.operator_times import OperatorTimes
from hemiola.fusion.plan import Group

SECONDS, BYTES = 1e-7, 64.0
"""Units before taking logarithms; smaller amounts are as good as none."""

OPERATOR_FEATURES = (
    "seconds alone", "elements", "last dimension", "bytes read", "bytes made", "flops", "bytes read from outside",
    "bytes written for others", "stands alone", "integers", "strided", "readers inside", "sources inside",
    *(f"loop {name}" for name in LOOP_NAMES),
)  # fmt: skip
PART_FEATURES = (
    "operators",
    "seconds alone",
    "bytes from outside",
    "bytes for others",
    "bytes saved",
    "largest loop",
)
NUM_FEATURES = len(OPERATOR_FEATURES) + len(PART_FEATURES)


@dataclass(frozen=True)
class PartFeatures:
    """A part as the network sees it."""

    amounts: Numbers
    """A row per operator, see `amounts`."""
    features: Numbers
    """A row per operator."""
    kinds: tuple[str, ...]
    edges: Integers
    """(2, edges): source and reader, by row."""


@dataclass(frozen=True)
class GroupFeatures:
    """A group as the estimator sees it."""

    call: Numbers
    parts: tuple[PartFeatures, ...]

    @property
    def amounts(self) -> GroupAmounts:
        """For the physical prior."""
        return GroupAmounts(self.call, tuple(part.amounts for part in self.parts))


class FeatureMaker:
    """Features of groups of one graph."""

    def __init__(self, graph: OpGraph, times: OperatorTimes) -> None:
        self.facts: OperatorFacts = operator_facts(graph, times)
        self.splitter = GroupSplitter(graph, self.facts.stands_alone)
        self.amounts = PartAmounts(graph, self.facts)
        self._predecessors = graph.predecessors
        self._fixed = self._fixed_columns()

    def _fixed_columns(self) -> Mapping[str, Numbers]:
        """What does not depend on the part."""
        facts = self.facts
        return {
            "seconds alone": np.log1p(facts.own_seconds / SECONDS),
            "elements": np.log1p(facts.elements),
            "last dimension": np.log1p(facts.last_dim),
            "bytes read": np.log1p(facts.bytes_read / BYTES),
            "bytes made": np.log1p(facts.bytes_made / BYTES),
            "flops": np.log1p(facts.flops / 1e3),
            "stands alone": facts.stands_alone.astype(float),
            "integers": facts.is_integer.astype(float),
            "strided": facts.is_strided.astype(float),
            **{f"loop {name}": (facts.loops == at).astype(float) for at, name in enumerate(LOOP_NAMES)},
        }

    def of_group(self, group: Group) -> GroupFeatures:
        """All parts, and the call."""
        split = self.splitter.split(group)
        return GroupFeatures(self.amounts.of_group(split), tuple(self.of_part(part) for part in split.parts))

    def of_part(self, part: Group) -> PartFeatures:
        """One part, by the operators of the graph."""
        amounts, edges = self.amounts.of_part(part), self._edges(part)
        outside = amounts[:, 1 : 1 + NUM_CLASSES].sum(axis=1)
        written = amounts[:, 1 + NUM_CLASSES : 1 + 2 * NUM_CLASSES].sum(axis=1)
        rows = list(part)
        columns = {
            **{name: column[rows] for name, column in self._fixed.items()},
            "bytes read from outside": np.log1p(outside / BYTES),
            "bytes written for others": np.log1p(written / BYTES),
            "readers inside": np.log1p(np.bincount(edges[0], minlength=len(part))),
            "sources inside": np.log1p(np.bincount(edges[1], minlength=len(part))),
        }
        own = np.stack([columns[name] for name in OPERATOR_FEATURES], axis=1)
        whole = self._part_columns(rows, outside.sum(), written.sum())
        features = np.concatenate((own, np.broadcast_to(whole, (len(part), len(whole)))), axis=1)
        return PartFeatures(amounts, features, tuple(self.facts.kinds[one] for one in part), edges)

    def _part_columns(self, rows: Sequence[int], outside: float, written: float) -> Numbers:
        facts = self.facts
        traffic = (facts.bytes_read[rows] + facts.bytes_made[rows]).sum()
        saved = max(0.0, traffic - outside - written)
        return np.array(
            [
                np.log1p(len(rows)),
                np.log1p(facts.own_seconds[rows].sum() / SECONDS),
                np.log1p(outside / BYTES),
                np.log1p(written / BYTES),
                np.log1p(saved / BYTES),
                np.log1p(facts.elements[rows].max()),
            ]
        )

    def _edges(self, part: Group) -> Integers:
        place = {one: row for row, one in enumerate(part)}
        pairs = [
            (place[source], row)
            for row, one in enumerate(part)
            for source in self._predecessors[one]
            if source in place
        ]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2).T
