"""replayed_seconds: a job's traffic under a placement, every request carried out by its best plan and replayed, all groups at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hemiola.cost.request import CollectiveRequest
from hemiola.placement.axes import Axes
from hemiola.placement.groups import groups_of_grid
from hemiola.placement.matrix import Numbers
from hemiola.placement.score import exposed
from hemiola.placement.traffic import Traffic, TrafficRequest
from hemiola.topology.system import System
from hemiola.tuning.plan_search import TimedPlan
from hemiola.tuning.tune import tune

MOST_REPLAYED = 64
"""Devices of a system on which placements are replayed; on more, finding plans takes longer than a person waits."""


@dataclass(frozen=True, slots=True)
class PricedRequest:
    """A request with the plan that carries it out."""

    request: TrafficRequest
    plan: TimedPlan | None
    """None where its groups are single devices."""

    @property
    def seconds(self) -> float:
        """Of all its times in a step."""
        return 0.0 if self.plan is None else self.plan.seconds * self.request.per_step


def replayed_seconds(system: System, grid: Numbers, axes: Axes, traffic: Traffic) -> float:
    """The exposed time of a step."""
    return exposed_seconds(price_requests(system, grid, axes, traffic), traffic)


def exposed_seconds(priced: list[PricedRequest], traffic: Traffic) -> float:
    """What stays exposed of the requests of a step."""
    return float(exposed(np.array([[one.seconds] for one in priced]).reshape(-1, 1), traffic).sum())


def price_requests(system: System, grid: Numbers, axes: Axes, traffic: Traffic) -> list[PricedRequest]:
    """Every request with its best plan, as `tune` finds it; equal questions are asked once."""
    known: dict[CollectiveRequest | tuple[object, ...], TimedPlan] = {}
    found = []
    for request in traffic.requests:
        groups = groups_of_grid(grid, request.axis_numbers(axes))
        if groups.shape[1] == 1:
            found.append(PricedRequest(request, None))
            continue
        asked = CollectiveRequest.of_groups(request.collective, system, groups)
        key = (asked.kind, asked.groups, request.num_bytes)
        if key not in known:
            known[key] = tune(asked, [request.num_bytes]).sizes[0].chosen
        found.append(PricedRequest(request, known[key]))
    return found
