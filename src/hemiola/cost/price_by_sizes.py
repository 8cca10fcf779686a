"""fill_by_sizes: the table of one plan under a runtime whose tiles or steps depend on the size in ways of its own.

The number of tiles is asked for at growing sizes. The table has both sides of the first few changes, and between any two
entries a replay in the middle decides whether a line is good enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hemiola.cost.price_window import (
    GOOD_ENOUGH,
    GRID,
    LARGEST_FACTOR,
    MOST_HALVINGS,
    SMALL_JUMP,
    SMALL_SHARE_BYTES,
    Amounts,
    PriceWindow,
)
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.errors import LimitError
from hemiola.ir.plan import Plan
from hemiola.simulator.runtimes.runtime_model import RuntimeModel

LEAST_JUMPS = 2
MOST_JUMPS = 32
"""Tiles whose both sides are in the table, at most."""


def fill_by_sizes(
    request: CollectiveRequest, plan: Plan, runtime: RuntimeModel, least: float, most: float
) -> tuple[PriceWindow, float]:
    """The table for sizes above ``least`` up to ``most``, and how far its lines were off, at most."""
    return _SizeFiller(request, plan, runtime).window(least, most)


@dataclass(frozen=True)
class _SizeFiller:
    request: CollectiveRequest
    plan: Plan
    runtime: RuntimeModel
    num_tiles_of: dict[float, int] = field(default_factory=dict)

    @property
    def unit(self) -> float:
        """Bytes of the collective that give every chunk one element."""
        shares = self.plan.collective.num_shares()
        return float(self.runtime.element_bytes * self.plan.share_chunks * shares)

    def num_tiles(self, num_bytes: float) -> int:
        """Into how many tiles a size is cut."""
        if num_bytes not in self.num_tiles_of:
            cores = self.request.system.compute.host_cores
            patterns = self.request.host_patterns
            every = (len(self.runtime.tiles(self.plan, num_bytes, hosts, cores)) for hosts in patterns)
            self.num_tiles_of[num_bytes] = max(every)
        return self.num_tiles_of[num_bytes]

    def replayed(self, num_bytes: float) -> float:
        return replay_seconds(self.plan, num_bytes, self.request, self.runtime)

    def window(self, least: float, most: float) -> tuple[PriceWindow, float]:
        """The table for sizes above ``least`` up to ``most``, and how far off its lines were."""
        unit, known = self.unit, dict[float, float]()
        low, worst = max(unit, float(np.floor(least / unit)) * unit), 0.0
        ends, end = self._ends_of_tiles(low, most)
        for jump in self._jumps(ends, known):
            worst = max(worst, self._refine(low, jump, known))
            low = jump + unit
        worst = max(worst, self._refine(low, max(end, low), known))
        sizes = np.array(sorted(known))
        seconds = np.array([known[size] for size in sizes])
        slope = self._pace(sizes, seconds)
        small = SMALL_SHARE_BYTES * self.plan.collective.num_shares()
        rest = self._remainder(ends[0] if ends else low)
        return PriceWindow(most, self.plan.name, unit, sizes, seconds, slope, rest, small), worst

    def _ends_of_tiles(self, low: float, most: float) -> tuple[list[float], float]:
        """Sizes after which the number of tiles changes, up to MOST_JUMPS tiles, and where the table ends.

        The runtime chooses the size of tiles by the size of the data, so the changes are looked for, not computed.
        """
        found: list[float] = []
        before, size = low, low
        while size < most and self.num_tiles(size) <= MOST_JUMPS:
            size = min(most, max(float(np.ceil(size * GRID / self.unit)) * self.unit, size + self.unit))
            found += self._changes(before, size)
            before = size
        return found, float(min(most, max(size * LARGEST_FACTOR / MOST_JUMPS, low * 4)))

    def _changes(self, low: float, high: float) -> list[float]:
        """The last sizes before the number of tiles changes, between two sizes."""
        if high - low < 1.5 * self.unit:
            return [low] if self.num_tiles(low) != self.num_tiles(high) else []
        if self.num_tiles(low) == self.num_tiles(high):
            return []
        middle = float(np.floor((low + high) / 2 / self.unit)) * self.unit
        return [*self._changes(low, middle), *self._changes(middle, high)]

    def _jumps(self, ends: Sequence[float], known: dict[float, float]) -> Iterator[float]:
        """Those of these sizes that are worth an entry: the first few, and on while one more tile takes a noticeable time."""
        for number, full in enumerate(ends):
            more = full + self.unit
            known[full], known[more] = self.replayed(full), self.replayed(more)
            yield full
            small = abs(known[more] - known[full]) < SMALL_JUMP * known[full]
            if small and number >= LEAST_JUMPS:
                return

    def _refine(self, low: float, high: float, known: dict[float, float], halvings: int = 0) -> float:
        """Entries between two sizes until lines between them are good enough; how far the worst line is off."""
        for size in (low, high):
            if size not in known:
                known[size] = self.replayed(size)
        middle = np.floor(np.sqrt(low * high) / self.unit) * self.unit
        if not low < middle < high:
            return 0.0
        line = known[low] + (known[high] - known[low]) * (middle - low) / (high - low)
        known[middle] = self.replayed(middle)
        error = float(abs(line / known[middle] - 1))
        if error <= GOOD_ENOUGH or halvings == MOST_HALVINGS:
            return error
        parts = ((low, middle), (middle, high))
        return max(self._refine(one, other, known, halvings + 1) for one, other in parts)

    def _pace(self, sizes: Amounts, seconds: Amounts) -> float:
        if len(sizes) < 2:
            return 0.0
        return float(seconds[-1] - seconds[-2]) / float(sizes[-1] - sizes[-2])

    def _remainder(self, full: float) -> float:
        """One more tile of one element a chunk, after whole ones."""
        least = max(full, SMALL_SHARE_BYTES * self.plan.collective.num_shares())
        whole = np.ceil(least / self.unit) * self.unit
        try:
            return max(0.0, self.replayed(whole + self.unit / 2) - self.replayed(whole))
        except LimitError:
            return 0.0
