"""Roles: which kind of parallelism an axis stands for, by the names that people give it."""

from __future__ import annotations

from collections.abc import Mapping

from hemiola.errors import PlacementError
from hemiola.placement.axes import Axes

NAMES: Mapping[str, tuple[str, ...]] = {
    "tp": ("tp", "tensor", "model", "tensor_parallel", "mp"),
    "cp": ("cp", "context", "context_parallel"),
    "ep": ("ep", "expert", "experts", "expert_parallel"),
    "dp": ("dp", "data", "fsdp", "shard", "data_parallel", "dp_shard"),
    "pp": ("pp", "pipeline", "pipe", "stage", "pipeline_parallel"),
}
"""Megatron's word for each role and the names of axes that have it, innermost of its default order first."""


def role_of(name: str) -> str | None:
    """Megatron's word for an axis, or nothing where its name is none that we know."""
    return next((role for role, names in NAMES.items() if name.lower() in names), None)


def roles_of(axes: Axes) -> dict[str, str]:
    """The axis of each role; axes without a role are refused."""
    found: dict[str, str] = {}
    for axis in axes:
        role = role_of(axis.name)
        if role is None:
            known = ", ".join(name for names in NAMES.values() for name in names[:2])
            raise PlacementError(
                f"axes: what {axis.name!r} stands for is not known; call it one of {known}, or give traffic as a list"
            )
        if role in found:
            raise PlacementError(
                f"axes: {found[role]!r} and {axis.name!r} both stand for {role}; keep one of them"
            )
        found[role] = axis.name
    return found
