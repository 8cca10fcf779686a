"""LearnedTimes: the estimator as `GroupTimes`, memoised by what the groups are; misses are answered together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hemiola.fusion.estimator.canonical import GroupHasher
from hemiola.fusion.estimator.features import FeatureMaker
from hemiola.fusion.estimator.network import part_times
from hemiola.fusion.estimator.operator_facts import Numbers
from hemiola.fusion.estimator.weights import EstimatorWeights
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.operator_times import OperatorTimes
from hemiola.fusion.plan import Group

MAX_BATCH = 512
"""Parts that the networks see at once."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """Of several groups, in order."""

    seconds: Numbers
    uncertainty: Numbers
    """Standard deviation over the ensemble, relative to the seconds; 0 for measured times."""


@dataclass(frozen=True, slots=True)
class _Split:
    """A group that has been seen: what its call costs, and its parts by their hashes."""

    call_seconds: float
    parts: tuple[int, ...]


class LearnedTimes:
    """Seconds of groups of one graph: measured for single operators, learned for groups.

    A part of a group is looked up by its canonical hash, so the parts of layer 7 are known when those of layer 1 are, and a group that grows by
    an operator costs one part. What is not known is given to the networks together.
    """

    def __init__(self, graph: OpGraph, times: OperatorTimes, weights: EstimatorWeights) -> None:
        self._features = FeatureMaker(graph, times)
        self._hasher = GroupHasher(graph)
        self._weights = weights
        self._groups: dict[Group, _Split] = {}
        self._parts: dict[int, Numbers] = {}
        self.num_network_parts = 0
        """Parts that the networks were asked for so far."""

    def seconds(self, groups: Sequence[Group]) -> Numbers:
        """The mean over the ensemble."""
        return self.estimates(groups).seconds

    def estimates(self, groups: Sequence[Group]) -> Estimates:
        """With the uncertainty of each."""
        self._learn(groups)
        members = np.stack([self._members(group) for group in groups])
        mean = members.mean(axis=1)
        return Estimates(mean, members.std(axis=1) / mean)

    def _members(self, group: Group) -> Numbers:
        """The seconds that each network says."""
        num = len(self._weights.networks)
        if len(group) == 1:
            return np.full(num, self._features.facts.own_seconds[group[0]])
        split = self._groups[group]
        seconds: Numbers = sum((self._parts[part] for part in split.parts), np.full(num, split.call_seconds))
        return seconds

    def _learn(self, groups: Sequence[Group]) -> None:
        """Split the groups that are new, and ask the networks for the parts that are."""
        missing: dict[int, Group] = {}
        for group in groups:
            if len(group) > 1 and group not in self._groups:
                self._groups[group] = self._split(group, missing)
        keys = list(missing)
        for begin in range(0, len(keys), MAX_BATCH):
            some = keys[begin : begin + MAX_BATCH]
            features = [self._features.of_part(missing[key]) for key in some]
            times = part_times(self._weights.networks, self._weights.prior, features)
            self._parts.update(zip(some, times.T, strict=True))
        self.num_network_parts += len(keys)

    def _split(self, group: Group, missing: dict[int, Group]) -> _Split:
        parts = self._features.splitter.split(group)
        call = self._features.amounts.of_group(parts)
        keys = tuple(self._hasher.hash(part) for part in parts.parts)
        for key, part in zip(keys, parts.parts, strict=True):
            if key not in self._parts:
                missing.setdefault(key, part)
        return _Split(float(self._weights.prior.calls(call)), keys)
