"""PartNetwork: the graph network in NumPy, from exported weights.

Every operator of a part has a vector; in each layer it takes the mean of those that it reads and of those that read it. In the end it gives
the logarithm of a factor on its prior, and the seconds of a part are the sum over its operators. So large parts are no new territory:
what is learned is how much an operator costs among its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hemiola.fusion.estimator.features import PartFeatures
from hemiola.fusion.estimator.operator_facts import Integers, Numbers
from hemiola.fusion.estimator.prior import PhysicalPrior, sum_by

EVEN_SHARE = 0.1
"""Of the prior of a part, spread evenly over its operators, so that none is without influence."""
MAX_LOG_FACTOR = 3.0
"""The network changes no prior by more than e to this."""


@dataclass(frozen=True)
class Layer:
    """One exchange along the edges and against them."""

    own: Numbers
    bias: Numbers
    sources: Numbers
    readers: Numbers


@dataclass(frozen=True)
class PartNetwork:
    """The weights of one member of the ensemble."""

    mean: Numbers
    scale: Numbers
    """Of the features, subtracted and divided."""
    kinds: tuple[str, ...]
    """One column each; kinds that are not among them have none."""
    enter: Numbers
    enter_bias: Numbers
    layers: tuple[Layer, ...]
    inner: Numbers
    inner_bias: Numbers
    leave: Numbers
    leave_bias: Numbers

    def log_factors(self, batch: PartBatch) -> Numbers:
        """Of every operator of a batch of parts."""
        table = np.concatenate(
            ((batch.features - self.mean) / self.scale, batch.kind_columns(self.kinds)), axis=1
        )
        values = np.maximum(table @ self.enter + self.enter_bias, 0)
        for layer in self.layers:
            taken = (
                values @ layer.own
                + layer.bias
                + (batch.from_sources @ values) @ layer.sources
                + (batch.from_readers @ values) @ layer.readers
            )
            values = values + np.maximum(taken, 0)
        inner = np.maximum(values @ self.inner + self.inner_bias, 0)
        found = (inner @ self.leave + self.leave_bias)[:, 0]
        limited: Numbers = MAX_LOG_FACTOR * np.tanh(found / MAX_LOG_FACTOR)
        return limited


class PartBatch:
    """Parts side by side, as one graph that is not connected."""

    def __init__(self, parts: Sequence[PartFeatures]) -> None:
        counts = np.array([len(one.features) for one in parts])
        begins = np.concatenate(([0], np.cumsum(counts)[:-1]))
        self.num_parts, self.num_operators = len(parts), int(counts.sum())
        self.features = np.concatenate([one.features for one in parts])
        self.amounts = np.concatenate([one.amounts for one in parts])
        self.owner: Integers = np.repeat(np.arange(len(parts)), counts)
        self.edges: Integers = np.concatenate(
            [one.edges + begin for one, begin in zip(parts, begins, strict=True)], axis=1
        )
        self._kinds = [kind for one in parts for kind in one.kinds]
        self.from_sources = self._averages(self.edges[0], self.edges[1])
        self.from_readers = self._averages(self.edges[1], self.edges[0])

    def _averages(self, source: Integers, target: Integers) -> Any:
        """The matrix that gives every operator the mean over its edges."""
        degrees = np.maximum(np.bincount(target, minlength=self.num_operators), 1)
        shape = (self.num_operators, self.num_operators)
        from scipy.sparse import csr_array  # takes long to import

        return csr_array((1.0 / degrees[target], (target, source)), shape=shape)

    def kind_columns(self, kinds: Sequence[str]) -> Numbers:
        """A one in the column of each operator's kind."""
        columns = {kind: at for at, kind in enumerate(kinds)}
        table = np.zeros((self.num_operators, len(kinds)))
        for row, kind in enumerate(self._kinds):
            if kind in columns:
                table[row, columns[kind]] = 1
        return table

    def shares(self, prior: PhysicalPrior) -> Numbers:
        """The prior of every operator, with the part of it that is spread evenly."""
        seconds = prior.operators(self.amounts)
        totals = sum_by(seconds, self.owner, self.num_parts)
        counts = np.bincount(self.owner, minlength=self.num_parts)
        even = EVEN_SHARE * totals / counts
        shares: Numbers = (1 - EVEN_SHARE) * seconds + even[self.owner]
        return shares


def part_times(
    networks: Sequence[PartNetwork], prior: PhysicalPrior, parts: Sequence[PartFeatures]
) -> Numbers:
    """Seconds of every part by every network, (networks, parts)."""
    batch = PartBatch(parts)
    shares = batch.shares(prior)
    return np.stack(
        [sum_by(shares * np.exp(one.log_factors(batch)), batch.owner, batch.num_parts) for one in networks]
    )
