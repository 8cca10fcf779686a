"""search: a permutation of an uneven system's devices, improved by exchanging two coordinates' devices at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from hemiola.placement.axes import Axes
from hemiola.placement.matrix import Numbers
from hemiola.placement.permutation import PermutationCosts
from hemiola.placement.replay import MOST_REPLAYED, Replay
from hemiola.placement.traffic import Traffic

MOST_TRIALS = 400
"""Permutations that are timed after the starts."""
MOST_ORDERS = 24
SEED = 1


@dataclass(frozen=True, slots=True)
class Found:
    """The best permutation of a search."""

    grid: Numbers
    """The device at each coordinate."""
    seconds: float
    start_seconds: float
    """Of the best start."""
    num_trials: int
    replayed_seconds: float | None
    """By replay of plans, which then decided among the best; None on systems that are too large for that."""


def search_permutation(
    costs: PermutationCosts, starts: Sequence[Numbers], axes: Axes, traffic: Traffic
) -> Found:
    """Begin with the fastest of the starts and of all orders of the axes; keep every exchange that is faster.

    Links one by one decide on the way; at the end, on systems that are not large, replay decides between start and end.
    """
    sizes = tuple(axis.size for axis in axes)
    every = [grid.reshape(sizes) for grid in starts] + list(_orders(sizes))
    timed = [(costs.seconds(grid, axes, traffic), number) for number, grid in enumerate(every)]
    seconds, number = min(timed)
    best, start_seconds, trials = every[number], seconds, len(every)
    start = best
    exchanges = _exchanges(best.size)
    for first, second in exchanges:
        trial = best.reshape(-1).copy()
        trial[[first, second]] = trial[[second, first]]
        found = costs.seconds(trial.reshape(sizes), axes, traffic)
        trials += 1
        if found < seconds * (1 - 1e-9):
            best, seconds = trial.reshape(sizes), found
    if best.size > MOST_REPLAYED:
        return Found(best, seconds, start_seconds, trials, None)
    replay = Replay(costs)
    finalists = [start, best]
    times = [replay.seconds(grid, axes, traffic) for grid in finalists]
    first = int(np.argmin(times))
    chosen = finalists[first]
    return Found(chosen, costs.seconds(chosen, axes, traffic), start_seconds, trials, times[first])


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
