"""Requests: which groups of a system's devices a collective or a plan runs in, from what people say of axes and placements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.errors import PlacementError, PlanError, TopologyError
from hemiola.ir.plan import Plan
from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.axes import find_axis
from hemiola.placement.groups import groups_of_grid
from hemiola.topology.presets import load_system
from hemiola.topology.system import System

if (
    TYPE_CHECKING
):  # its module imports all of planning, and a command that only reads a placement should start quickly
    from hemiola.placement.place import PlacementResult

Where = System | str
"""A system, the name of a preset, or a YAML file."""


def find_request(
    kind: CollectiveKind,
    system: Where,
    *,
    axes: str | None = None,
    placement: AppliedPlacement | PlacementResult | str | None = None,
    over: str | None = None,
    root: int = 0,
    peer: int = 0,
) -> CollectiveRequest:
    """The groups over some axes where axes or a placement are given, otherwise one group of all devices."""
    machine = find_system(system)
    if axes is None and placement is None:
        if over is not None:
            raise PlacementError(f"{over!r} names axes, but there are none; give axes or a placement")
        return CollectiveRequest.of_system(kind, machine, root=root, peer=peer)
    placed = find_placement(machine, axes, placement)
    if over is None:
        raise PlacementError(f"say which of the axes {', '.join(placed.names)} the {kind} runs over")
    return CollectiveRequest.of_groups(kind, machine, groups_of_grid(placed.grid, axis_numbers(placed, over)))


def find_placement(
    system: Where, axes: str | None, placement: AppliedPlacement | PlacementResult | str | None
) -> AppliedPlacement:
    """A placement from what is said of it; row-major where only the axes are."""
    if isinstance(placement, AppliedPlacement):
        return placement
    if placement is None or isinstance(placement, str):
        from hemiola.placement.read_placement import read_placement  # a whole system needs none of it

        return read_placement(find_system(system), axes, placement)
    return placement.applied()


def axis_numbers(placed: AppliedPlacement, over: str) -> list[int]:
    """The axes in ``data`` or ``data,model``, by number."""
    numbers = [find_axis(placed.axes, name.strip(), "axes") for name in over.split(",")]
    if len(set(numbers)) < len(numbers):
        raise PlacementError(f"an axis is named twice in {over[:60]!r}")
    return sorted(numbers)


def request_of_plan(
    plan: Plan,
    system: Where,
    *,
    axes: str | None = None,
    placement: AppliedPlacement | PlacementResult | str | None = None,
    over: str | None = None,
) -> CollectiveRequest:
    """Where a plan runs: in the groups over some axes, or on the first devices of a system."""
    machine, c = find_system(system), plan.collective
    if plan.num_ranks > machine.num_ranks:
        raise TopologyError(
            f"plan {plan.name!r} has {plan.num_ranks} ranks, but system {machine.name!r} has {machine.num_ranks} devices"
        )
    if axes is None and placement is None and over is None:
        return CollectiveRequest(c.kind, machine, (tuple(range(plan.num_ranks)),), c.root, c.peer)
    groups = find_request(c.kind, machine, axes=axes, placement=placement, over=over).groups
    if len(groups[0]) != plan.num_ranks:
        raise PlanError(
            f"plan {plan.name!r} has {plan.num_ranks} ranks, but the groups over {over} have {len(groups[0])} devices"
        )
    return CollectiveRequest(c.kind, machine, groups, c.root, c.peer)


def find_system(system: Where) -> System:
    """A system from its name, or itself."""
    return load_system(system) if isinstance(system, str) else system
