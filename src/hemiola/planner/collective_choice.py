"""choose_collectives: for every request of a job under its placement, the vendor's collective or a plan of ours, replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hemiola.cost.request import CollectiveRequest
from hemiola.placement.axes import Axes
from hemiola.placement.groups import groups_of_grid
from hemiola.placement.matrix import Numbers
from hemiola.placement.traffic import Traffic, TrafficRequest
from hemiola.topology.system import System
from hemiola.tuning.tune import Tuning, tune


@dataclass(frozen=True)
class CollectiveChoice:
    """What carries out a request."""

    request: TrafficRequest
    tuning: Tuning
    """At the bytes of the request alone."""

    @property
    def seconds(self) -> float:
        """Of one call with what was chosen."""
        return self.tuning.sizes[0].chosen.seconds

    @property
    def vendor_seconds(self) -> float:
        """Of one call as the vendor's library, or our own runtime by itself, would do it."""
        return self.tuning.sizes[0].default.seconds

    @property
    def keeps_vendor(self) -> bool:
        """Whether nothing is faster."""
        return self.tuning.sizes[0].chosen.candidate is None

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        size = self.tuning.sizes[0]
        return {
            "name": self.request.name,
            "collective": self.request.collective,
            "over": list(self.request.over),
            "bytes": self.request.num_bytes,
            "per_step": self.request.per_step,
            "seconds": self.seconds,
            "vendor_seconds": self.vendor_seconds,
            "bound_seconds": size.bound.seconds,
            "plan": size.chosen.name,
            "keeps_vendor": self.keeps_vendor,
        }


def choose_collectives(
    system: System,
    grid: Numbers,
    axes: Axes,
    traffic: Traffic,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[CollectiveChoice, ...]:
    """One choice for each request that crosses devices; equal questions are asked once."""
    known: dict[tuple[object, ...], Tuning] = {}
    found = []
    for number, request in enumerate(traffic.requests):
        progress(number, len(traffic.requests))
        groups = groups_of_grid(grid, request.axis_numbers(axes))
        if groups.shape[1] == 1:
            continue
        asked = CollectiveRequest.of_groups(request.collective, system, groups)
        key = (asked.kind, asked.groups, request.num_bytes)
        if key not in known:
            known[key] = tune(asked, [request.num_bytes])
        found.append(CollectiveChoice(request, known[key]))
    return tuple(found)
