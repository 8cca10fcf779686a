"""PhysicalPrior: seconds as a sum of amounts, each times a cost that is never negative, fitted to labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hemiola.fusion.estimator.amounts import GROUP_AMOUNTS, OPERATOR_AMOUNTS, stack
from hemiola.fusion.estimator.operator_facts import Integers, Numbers

NUM_REFITS = 10
"""Rounds of least squares, each trusting far labels less than the one before."""


@dataclass(frozen=True)
class GroupAmounts:
    """What a group does: its call, and its operators part by part."""

    call: Numbers
    parts: tuple[Numbers, ...]

    @property
    def total(self) -> Numbers:
        """The amounts of the call, then those of all operators together."""
        operators = sum((part.sum(axis=0) for part in self.parts), np.zeros(len(OPERATOR_AMOUNTS)))
        return np.concatenate((self.call, operators))


@dataclass(frozen=True)
class PhysicalPrior:
    """A cost for every amount, in seconds."""

    call_costs: Numbers
    operator_costs: Numbers

    def operators(self, amounts: Numbers) -> Numbers:
        """Seconds of each operator, a row each."""
        seconds: Numbers = amounts @ self.operator_costs
        return seconds

    def calls(self, amounts: Numbers) -> Numbers:
        """Seconds of each call, a row each."""
        seconds: Numbers = amounts @ self.call_costs
        return seconds

    def groups(self, groups: Sequence[GroupAmounts]) -> Numbers:
        """Seconds of whole groups."""
        totals = np.stack([one.total for one in groups])
        seconds: Numbers = totals @ np.concatenate((self.call_costs, self.operator_costs))
        return seconds


def fit_prior(groups: Sequence[GroupAmounts], seconds: Numbers) -> PhysicalPrior:
    """Least relative deviations over costs that are not negative, by least squares with weights.

    Rows are divided by their labels, so that all labels count alike; a row that is off by r gets weight 1 / r in the next round.
    """
    from scipy.optimize import nnls

    table = np.stack([one.total for one in groups]) / seconds[:, None]
    scale = np.maximum(np.abs(table).max(axis=0), 1e-30)
    weights = np.ones(len(seconds))
    costs = np.zeros(table.shape[1])
    for _ in range(NUM_REFITS):
        costs, _ = nnls(table / scale * weights[:, None], weights)
        off = np.abs(table @ (costs / scale) - 1)
        weights = 1 / np.sqrt(np.maximum(off, 0.02))
    costs /= scale
    return PhysicalPrior(costs[: len(GROUP_AMOUNTS)], costs[len(GROUP_AMOUNTS) :])


def sum_by(values: Numbers, owner: Integers, num: int) -> Numbers:
    """The sums of the values of each owner."""
    sums: Numbers = np.bincount(owner, weights=values, minlength=num).astype(np.float64)
    return sums


def part_seconds(prior: PhysicalPrior, parts: Sequence[Numbers]) -> Numbers:
    """Seconds of parts, without their calls."""
    rows, owner = stack(parts)
    return sum_by(prior.operators(rows), owner, len(parts))
