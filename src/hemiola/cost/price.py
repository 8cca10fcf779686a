"""Price: bytes to seconds of one request, for every size, as a table that answers a million times a second.

The plan of each window of sizes is replayed at chosen sizes, and between them times are straight lines (`price_window`). A
plan cuts its chunks into tiles, and a tile more is a message more on every connection, so times jump where a tile is full.
Sizes that leave some elements over when they are cut into chunks need one more tile of one element a chunk; that is an
extra term, stated for each window.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hemiola.cache import keep, read_kept
from hemiola.cost.price_by_sizes import fill_by_sizes
from hemiola.cost.price_window import PriceWindow, fill_window
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.tile_times import TileTimes
from hemiola.cost.time_source import TimeSource
from hemiola.ir.plan import Plan
from hemiola.runtime.plans.plan_source import plan_digest
from hemiola.simulator.runtimes.by_name import runtime_of
from hemiola.simulator.runtimes.hemiola import HemiolaRuntime
from hemiola.simulator.runtimes.runtime_model import RuntimeModel
from hemiola.topology.write_system import write_system
from hemiola.units import LARGEST

Amounts = npt.NDArray[np.float64]

VERSION = 5
"""Of kept tables, and of the way in which they are filled."""


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """The plan of a window of sizes."""

    plan: Plan
    max_bytes: int = LARGEST


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
    request: CollectiveRequest, plans: Sequence[PricedPlan], *, runtime: RuntimeModel | None = None
) -> Price:
    """The price of a request whose plans are these, by ascending size; kept on disk by a digest of all of it."""
    name = f"price-v{VERSION}-{_digest(request, plans, runtime or runtime_of(request.system))}.json"
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
    request: CollectiveRequest, plans: Sequence[PricedPlan], *, runtime: RuntimeModel | None = None
) -> Price:
    """The same, by replays."""
    windows, worst, least = [], 0.0, 0.0
    for priced in plans:
        window, error = _fill(request, priced.plan, runtime, least, float(priced.max_bytes))
        windows.append(window)
        worst, least = max(worst, error), float(priced.max_bytes)
    return Price(tuple(windows), TimeSource.REPLAYED, request.system.name, worst)


def _fill(
    request: CollectiveRequest, plan: Plan, runtime: RuntimeModel | None, least: float, most: float
) -> tuple[PriceWindow, float]:
    """Our own runtime moves the same steps at every size, and cuts them into tiles of equal length; others need not."""
    runtime = runtime or runtime_of(request.system)
    if isinstance(runtime, HemiolaRuntime):
        return fill_window(TileTimes(request, plan, runtime), least, most)
    return fill_by_sizes(request, plan, runtime, least, most)


def _digest(request: CollectiveRequest, plans: Sequence[PricedPlan], runtime: RuntimeModel) -> str:
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
