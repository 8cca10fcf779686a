"""Price: bytes to seconds of one request, for every size, as a table that answers a million times a second.

The plan of each window of sizes is replayed at chosen sizes, and between them times are straight lines. A plan cuts its chunks into
tiles, and a tile more is a message more on every connection, so times jump where a tile is full: the table has both
sides of the first few jumps, and between any two entries a replay in the middle decides whether a line is good enough.
Sizes that leave some elements over when they are cut into chunks need one more tile of one element a chunk; that is an extra
term, stated for each window.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hemiola.cache import keep, read_kept
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from hemiola.errors import LimitError
from hemiola.ir.plan import Plan
from hemiola.runtime.plans.plan_source import plan_digest
from hemiola.simulator.runtimes.hemiola import HEMIOLA, HemiolaRuntime
from hemiola.topology.write_system import write_system
from hemiola.units import LARGEST

Amounts = npt.NDArray[np.float64]

VERSION = 4
"""Of kept tables, and of the way in which they are filled."""
GOOD_ENOUGH = 0.006
"""A line is kept where a replay in its middle is no farther off."""
MOST_HALVINGS = 5
"""How often a line is cut in two; what is not straight then is a jump."""
SMALL_JUMP = 0.008
"""One tile more takes so little of the whole that the table may go on in a line."""
LEAST_JUMPS = 2
MOST_JUMPS = 32
"""Tiles whose both sides are in the table, at most."""
SMALL_SHARE_BYTES = 16 << 10
"""Shares up to this size that leave elements over are padded as a whole (csrc/runtime/tiles.h)."""
GRID = 1.25
"""The number of tiles is asked for at sizes so many times as large as the one before."""
LARGEST_FACTOR = 4096
"""The table ends at about so many tiles, and goes on in a straight line."""


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """The plan of a window of sizes."""

    plan: Plan
    max_bytes: int = LARGEST


@dataclass(frozen=True)
class PriceWindow:
    """The times of one plan."""

    max_bytes: float
    """Sizes up to this one have this plan."""
    plan: str
    """Its name."""
    unit_bytes: float
    """Sizes that are multiples of it leave no elements over."""
    sizes: Amounts
    seconds: Amounts
    slope: float
    """Seconds of every further byte beyond the last size."""
    remainder_seconds: float
    """What one more tile of one element a chunk takes."""
    small_bytes: float
    """Up to this size, data that leaves elements over is padded to the next multiple instead."""

    def at(self, num_bytes: Amounts) -> Amounts:
        """The seconds of sizes of this window."""
        whole = np.floor(num_bytes / self.unit_bytes + 1e-9)
        has_rest = num_bytes - whole * self.unit_bytes > 1e-6 * self.unit_bytes
        padded = has_rest & (num_bytes <= self.small_bytes)
        counted = (whole + padded) * self.unit_bytes
        inside: Amounts = np.interp(counted, self.sizes, self.seconds)
        beyond = np.maximum(counted - self.sizes[-1], 0.0) * self.slope
        found: Amounts = inside + beyond + np.where(has_rest & ~padded, self.remainder_seconds, 0.0)
        return found


@dataclass(frozen=True)
class Price:
    """Seconds of a request by its bytes."""

    windows: tuple[PriceWindow, ...]
    source: TimeSource
    constants: str
    """Whose constants the replay had: the name of the system."""
    error: float
    """How far a line was from a replay in its middle, at most, where it was kept."""

    @cached_property
    def _ends(self) -> Amounts:
        return np.array([window.max_bytes for window in self.windows[:-1]])

    def seconds(self, num_bytes: npt.ArrayLike) -> Amounts:
        """The seconds of each of some sizes; nothing takes no time."""
        sizes = np.atleast_1d(np.asarray(num_bytes, np.float64))
        if len(self.windows) == 1:
            return np.where(sizes > 0, self.windows[0].at(sizes), 0.0)
        which = np.searchsorted(self._ends, sizes)
        found = np.zeros(sizes.shape)
        for number, window in enumerate(self.windows):
            chosen = which == number
            if chosen.any():
                found[chosen] = window.at(sizes[chosen])
        return np.where(sizes > 0, found, 0.0)

    def __call__(self, num_bytes: float) -> float:
        """The seconds of one size."""
        return float(self.seconds(num_bytes)[0])

    def to_json(self) -> dict[str, Any]:
        """For machines, and for the cache."""
        return {
            "source": self.source,
            "constants": self.constants,
            "error": self.error,
            "windows": [
                {
                    "max_bytes": window.max_bytes,
                    "plan": window.plan,
                    "unit_bytes": window.unit_bytes,
                    "sizes": window.sizes.tolist(),
                    "seconds": window.seconds.tolist(),
                    "slope": window.slope,
                    "remainder_seconds": window.remainder_seconds,
                    "small_bytes": window.small_bytes,
                }
                for window in self.windows
            ],
        }

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Price:
        """The inverse of `to_json`."""
        windows = tuple(
            PriceWindow(
                **{
                    **window,
                    "sizes": np.array(window["sizes"], np.float64),
                    "seconds": np.array(window["seconds"], np.float64),
                }
            )
            for window in fields["windows"]
        )
        return Price(windows, TimeSource(fields["source"]), str(fields["constants"]), float(fields["error"]))


def price(
    request: CollectiveRequest, plans: Sequence[PricedPlan], *, runtime: HemiolaRuntime = HEMIOLA
) -> Price:
    """The price of a request whose plans are these, by ascending size; kept on disk by a digest of all of it."""
    name = f"price-v{VERSION}-{_digest(request, plans, runtime)}.json"
    kept = read_kept(name)
    if isinstance(kept, dict):
        try:
            return Price.from_json(kept)
        except (KeyError, TypeError, ValueError):
            pass  # not written by this version: it is filled again
    found = fill_price(request, plans, runtime=runtime)
    keep(name, found.to_json())
    return found


def fill_price(
    request: CollectiveRequest, plans: Sequence[PricedPlan], *, runtime: HemiolaRuntime = HEMIOLA
) -> Price:
    """The same, by replays."""
    windows, worst, least = [], 0.0, 0.0
    for priced in plans:
        filler = _Filler(request, priced.plan, runtime)
        window, error = filler.window(least, float(priced.max_bytes))
        windows.append(window)
        worst, least = max(worst, error), float(priced.max_bytes)
    return Price(tuple(windows), TimeSource.REPLAYED, request.system.name, worst)


@dataclass(frozen=True)
class _Filler:
    request: CollectiveRequest
    plan: Plan
    runtime: HemiolaRuntime
    _num_tiles: dict[float, int] = field(default_factory=dict)

    @property
    def unit(self) -> float:
        """Bytes of the collective that give every chunk one element."""
        shares = self.plan.collective.num_shares()
        return float(self.runtime.element_bytes * self.plan.share_chunks * shares)

    def num_tiles(self, num_bytes: float) -> int:
        """Into how many tiles a size is cut."""
        if num_bytes not in self._num_tiles:
            cores = self.request.system.compute.host_cores
            patterns = self.request.host_patterns
            every = (len(self.runtime.tiles(self.plan, num_bytes, hosts, cores)) for hosts in patterns)
            self._num_tiles[num_bytes] = max(every)
        return self._num_tiles[num_bytes]

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


def _digest(request: CollectiveRequest, plans: Sequence[PricedPlan], runtime: HemiolaRuntime) -> str:
    what = {
        "system": write_system(request.system),
        "kind": request.kind,
        "groups": hashlib.sha256(request.table.tobytes()).hexdigest(),
        "shape": list(request.table.shape),
        "ends": [request.root, request.peer],
        "runtime": repr(runtime),
        "plans": [
            [plan_digest(one.plan).hex(), one.plan.message_bytes, one.max_bytes, one.plan.protocol.value]
            for one in plans
        ],
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]
