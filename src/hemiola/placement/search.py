"""search: a permutation of an uneven system's devices, improved by exchanging two coordinates' devices at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np

from hemiola.cost.estimates.explicit_groups import GroupCosts
from hemiola.placement.axes import Axes
from hemiola.placement.matrix import Numbers
from hemiola.placement.priced import MOST_REPLAYED, replayed_seconds
from hemiola.placement.score import grid_seconds
from hemiola.placement.traffic import Traffic

MOST_TRIALS = 400
"""Permutations that are timed after the starts."""
MOST_ORDERS = 24
SEED = 1


@dataclass(frozen=True, slots=True)
class SearchedPermutation:
    """The best permutation of a search."""

    grid: Numbers
    """The device at each coordinate."""
    seconds: float
    """Estimated."""
    start_seconds: float
    """Of the best start, estimated."""
    num_trials: int
    replayed_seconds: float | None
    """By replay of the best plans, which then decided between start and end; None on systems that are too large for that."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "devices": self.grid.reshape(-1).tolist(),
            "seconds": self.seconds,
            "start_seconds": self.start_seconds,
            "num_trials": self.num_trials,
            "replayed_seconds": self.replayed_seconds,
        }


def search_permutation(
    costs: GroupCosts, starts: Sequence[Numbers], axes: Axes, traffic: Traffic
) -> SearchedPermutation:
    """Begin with the fastest of the starts and of all orders of the axes; keep every exchange that is faster.

    Links one by one decide on the way; at the end, on systems that are not large, replay decides between start and end.
    """
    sizes = tuple(axis.size for axis in axes)
    every = [grid.reshape(sizes) for grid in starts] + list(_orders(sizes))
    timed = [(grid_seconds(costs.seconds, grid, axes, traffic), number) for number, grid in enumerate(every)]
    seconds, number = min(timed)
    best, start_seconds, trials = every[number], seconds, len(every)
    start = best
    exchanges = _exchanges(best.size)
    for first, second in exchanges:
        trial = best.reshape(-1).copy()
        trial[[first, second]] = trial[[second, first]]
        found = grid_seconds(costs.seconds, trial.reshape(sizes), axes, traffic)
        trials += 1
        if found < seconds * (1 - 1e-9):
            best, seconds = trial.reshape(sizes), found
    if best.size > MOST_REPLAYED:
        return SearchedPermutation(best, seconds, start_seconds, trials, None)
    finalists = [start] if (start == best).all() else [start, best]
    times = [replayed_seconds(costs.system, grid, axes, traffic) for grid in finalists]
    first = int(np.argmin(times))
    chosen = finalists[first]
    return SearchedPermutation(
        chosen, grid_seconds(costs.seconds, chosen, axes, traffic), start_seconds, trials, times[first]
    )


def _orders(sizes: tuple[int, ...]) -> Iterator[Numbers]:
    """The devices in their order, counted through by the axes in each order."""
    for number, order in enumerate(permutations(range(len(sizes)))):
        if number == MOST_ORDERS:
            return
        grid = np.arange(int(np.prod(sizes))).reshape([sizes[axis] for axis in order])
        yield grid.transpose(np.argsort(order))


def _exchanges(num_devices: int) -> list[tuple[int, int]]:
    """Pairs of places to try, all of them or a sample, in an order that is always the same."""
    if num_devices * (num_devices - 1) // 2 <= MOST_TRIALS:
        return list(combinations(range(num_devices), 2))
    random = np.random.default_rng(SEED)
    return [tuple(random.choice(num_devices, 2, replace=False).tolist()) for _ in range(MOST_TRIALS)]
