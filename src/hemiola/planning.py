"""Planning as functions: place, synthesize, tune, simulate, price and plan_job, on values or on the texts that people write.

A system is a `System`, the name of a preset such as ``dgx-a100:4``, or a YAML file. Axes read ``data=8,model=4``, sizes ``64MiB``.
What one function gives, the next one takes: a placement found by `place` is where `synthesize`, `tune` and `simulate` run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hemiola.collectives import Collective, CollectiveKind, parse_kind
from hemiola.cost.bounds import lower_bound as bounds
from hemiola.cost.bounds.lower_bound import Bound
from hemiola.cost.price import Price, PricedPlan
from hemiola.cost.price import price as price_plans
from hemiola.cost.replay_seconds import Replayed, replay
from hemiola.ir.plan import Plan
from hemiola.placement import place as placing
from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.axes import Axes, parse_axes
from hemiola.placement.place import PlacementResult
from hemiola.placement.read_traffic import read_traffic
from hemiola.placement.requests import Where, find_request, find_system, request_of_plan
from hemiola.placement.traffic import Traffic, plain_traffic
from hemiola.simulator.replay import FOLDED, ReplayOptions
from hemiola.simulator.runtimes.runtime_model import RuntimeModel
from hemiola.synthesis import synthesize as synthesizing
from hemiola.synthesis.synthesize import SynthesisResult
from hemiola.tuning import tune as tuning
from hemiola.tuning.candidate_space import NUM_PROGRAMS
from hemiola.tuning.tune import Tuning
from hemiola.units import LARGEST, parse_bytes, parse_size_range

if TYPE_CHECKING:  # only whole jobs need the planner, and other commands should start quickly
    from hemiola.planner.job import Job
    from hemiola.planner.job_plan import JobPlan

ASSUMED_BYTES = 1 << 30
"""Of an all-reduce over each axis, where no traffic is given."""

Placed = AppliedPlacement | PlacementResult | str
"""A placement, the result of `place`, or a text: ``1x4;2x2`` or a file."""


def place(
    system: Where,
    axes: Axes | str,
    traffic: Traffic | str | None = None,
    *,
    top: int = 10,
    replay: bool = True,
) -> PlacementResult:
    """Rank where the axes of a job go on a system, by the exposed time of its traffic.

    Traffic is a list of requests or a model, as YAML or in a file; without it, an all-reduce of 1 GiB over each axis.
    """
    machine, named = find_system(system), parse_axes(axes) if isinstance(axes, str) else axes
    if traffic is None:
        traffic = plain_traffic(named, ASSUMED_BYTES)
    said = read_traffic(traffic, named) if isinstance(traffic, str) else traffic
    return placing.place(machine, named, said, top=top, replay=replay)


def synthesize(
    system: Where,
    num_bytes: int | str,
    *,
    over: str | None = None,
    axes: str | None = None,
    placement: Placed | None = None,
    collective: str = CollectiveKind.ALLREDUCE,
    top: int = NUM_PROGRAMS,
    replay: bool = True,
) -> SynthesisResult:
    """The best programs of a reduction over some axes of a placement, or over the whole system."""
    request = find_request(parse_kind(collective), system, axes=axes, placement=placement, over=over)
    return synthesizing.synthesize(request, _bytes(num_bytes), top=top, replay=replay)


def tune(
    collective: str,
    system: Where,
    sizes: str | Sequence[int] = "4KiB..64MiB",
    *,
    over: str | None = None,
    axes: str | None = None,
    placement: Placed | None = None,
    root: int = 0,
    runtime: RuntimeModel | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tuning:
    """The best plan for every size of a collective, over some axes of a placement or over the whole system."""
    kind, machine = parse_kind(collective), find_system(system)
    peer = machine.num_ranks - 1 if kind is CollectiveKind.SENDRECV else 0
    request = find_request(kind, machine, axes=axes, placement=placement, over=over, root=root, peer=peer)
    chosen = parse_size_range(sizes) if isinstance(sizes, str) else sizes
    return tuning.tune(request, chosen, runtime=runtime, progress=progress)


def simulate(
    plan: Plan,
    system: Where,
    num_bytes: int | str,
    *,
    over: str | None = None,
    axes: str | None = None,
    placement: Placed | None = None,
    runtime: RuntimeModel | None = None,
    options: ReplayOptions = FOLDED,
) -> Replayed:
    """How long a plan takes on the first devices of a system, or in all groups over some axes at once."""
    request = request_of_plan(plan, system, axes=axes, placement=placement, over=over)
    return replay(plan, _bytes(num_bytes), request, runtime, options)


def price(tuned: Tuning, *, runtime: RuntimeModel | None = None) -> Price:
    """Bytes to seconds of what was tuned, for every size: a table that answers a million times a second."""
    ends = [window.max_bytes for window in tuned.windows[:-1]]
    plans = [
        PricedPlan(window.chosen.plan, end)
        for window, end in zip(tuned.windows, [*ends, LARGEST], strict=True)
    ]
    return price_plans(tuned.request, plans, runtime=runtime)


def lower_bound(
    collective: Collective | str,
    num_bytes: int | str,
    system: Where,
    *,
    over: str | None = None,
    axes: str | None = None,
    placement: Placed | None = None,
) -> Bound:
    """The time that no algorithm can beat; a name stands for the collective of all devices, or of the groups over some axes."""
    machine, size = find_system(system), _bytes(num_bytes)
    if not isinstance(collective, str):
        return bounds.lower_bound(collective, size, machine)
    last = machine.num_ranks - 1
    request = find_request(
        parse_kind(collective), machine, axes=axes, placement=placement, over=over, peer=last
    )
    return bounds.lower_bound(request.collective, size, machine, groups=request.table)


def plan_job(job: Job | str, *, quick: bool = False) -> JobPlan:
    """Degrees, placement and collectives of a whole job, which is a value or a YAML file; with ``quick``, by estimates alone."""
    from hemiola.planner import plan_job as answering
    from hemiola.planner.job import read_job

    return answering.plan_job(read_job(job) if isinstance(job, str) else job, quick=quick)


def _bytes(size: int | str) -> int:
    return parse_bytes(size) if isinstance(size, str) else size
