"""Megatron: the flags of its command line that give a placement, or code for orders that no flag asks for."""

from __future__ import annotations

from itertools import permutations

from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.defaults import DefaultOrder
from hemiola.placement.exports.megatron_rules import (
    DEFAULT_ORDER,
    FLAG,
    FLAG_ORDER,
    Groups,
    MegatronSizes,
    accepted_orders,
    all_groups,
    groups_of_grid,
)
from hemiola.placement.matrix import Numbers
from hemiola.placement.roles import role_of

MEANT = {
    "tp": ("tp",),
    "cp": ("cp",),
    "pp": ("pp",),
    "gradients": ("dp", "cp", "ep"),
    "ep": ("ep",),
    "expert gradients": ("dp", "cp"),
}
"""The axes over which each of Megatron's groups must reach."""


def megatron_sizes(placement: AppliedPlacement) -> MegatronSizes | None:
    """The axes by Megatron's names; nothing where one has no such name, or two have the same."""
    roles = [role_of(name) for name in placement.names]
    if None in roles or len(set(roles)) != len(roles):
        return None
    return MegatronSizes(**{str(role): axis.size for role, axis in zip(roles, placement.axes, strict=True)})


def megatron_order(placement: AppliedPlacement) -> str | None:
    """An order that Megatron takes and under which its groups are those of the placement, or as good; rank r is on device r."""
    sizes = megatron_sizes(placement)
    if sizes is None:
        return None
    wanted = [_groups_of(grid, placement) for grid in _equal_grids(placement)]
    for order in accepted_orders(sizes):
        if all_groups(order, sizes) in wanted:
            return order
    return None


def megatron_flags(placement: AppliedPlacement) -> str | None:
    """What Megatron's command line takes for the placement; nothing where no flag asks for the order."""
    sizes, order = megatron_sizes(placement), megatron_order(placement)
    if sizes is None or order not in (DEFAULT_ORDER, FLAG_ORDER):
        return None
    flags = [
        f"--tensor-model-parallel-size {sizes.tp}",
        f"--pipeline-model-parallel-size {sizes.pp}",
        *([f"--context-parallel-size {sizes.cp}"] if sizes.cp > 1 else []),
        *([f"--expert-model-parallel-size {sizes.ep}"] if sizes.ep > 1 else []),
        *(["--sequence-parallel"] if sizes.ep > 1 and sizes.tp > 1 else []),
        *([FLAG] if order == FLAG_ORDER else []),
    ]
    return " ".join(flags)


def megatron_args_text(placement: AppliedPlacement) -> str | None:
    """A file for a shell: source it, and pass $MEGATRON_PARALLEL_ARGS to Megatron's training script."""
    flags = megatron_flags(placement)
    if flags is None:
        return None
    return (
        "# source this file, and add $MEGATRON_PARALLEL_ARGS to the arguments of Megatron-LM's training script.\n"
        "# Start the ranks in the order of devices: torchrun_nodes.txt, or slurm_devices_hostfile.\n"
        f'export MEGATRON_PARALLEL_ARGS="{flags}"\n'
    )


def megatron_init_text(placement: AppliedPlacement) -> str | None:
    """Code for an order that only ``initialize_model_parallel`` takes."""
    sizes, order = megatron_sizes(placement), megatron_order(placement)
    if sizes is None or order is None or megatron_flags(placement) is not None:
        return None
    return f'''"""The groups of system {placement.system.name}. Megatron-LM's command line has no flag for this order, so call `initialize` where your training
script would call `initialize_model_parallel`, after `torch.distributed.init_process_group`. Start the ranks in the order of devices:
torchrun_nodes.txt, or slurm_devices_hostfile.
"""

from megatron.core import parallel_state


def initialize():
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size={sizes.tp},
        pipeline_model_parallel_size={sizes.pp},
        context_parallel_size={sizes.cp},
        expert_model_parallel_size={sizes.ep},
        order="{order}",
    )
'''


def why_no_megatron(placement: AppliedPlacement) -> str | None:
    """Why no order of Megatron gives the placement; nothing where one does."""
    if megatron_order(placement) is not None:
        return None
    if megatron_sizes(placement) is None:
        return "an axis is none of Megatron's (tp, cp, ep, dp, pp), or two axes are the same one"
    return (
        "Megatron gives each axis one place in an order of ranks, folds ep out of cp and dp, and wants pp last where experts are spread;"
        " none of the orders that it takes has the groups of this placement. Use torch_mesh.py, or start the ranks by rankfile or"
        " slurm_hostfile, with the axes row-major"
    )


def _equal_grids(placement: AppliedPlacement) -> list[Numbers]:
    """The placement, and nestings of its axes that cost the same: units of a switch may change places."""
    grids = [placement.grid]
    symmetric = all(level.fabric.kind != "mesh" for level in placement.system.levels)
    if placement.matrix is None or not symmetric:
        return grids
    meant = dict(zip(placement.matrix.axes, placement.matrix.rows, strict=True))
    for slowest_first in permutations(range(len(placement.axes))):
        order = DefaultOrder("", slowest_first)
        matrix = order.matrix(placement.axes, placement.matrix.counts)
        if matrix is not None and dict(zip(matrix.axes, matrix.rows, strict=True)) == meant:
            grids.append(order.device_grid(placement.axes))
    return grids


def _groups_of(grid: Numbers, placement: AppliedPlacement) -> dict[str, Groups]:
    """The groups of a grid of devices, named as Megatron's."""
    roles = [role_of(name) for name in placement.names]
    found = {}
    for name, members in MEANT.items():
        found[name] = groups_of_grid(grid, [roles.index(role) for role in members if role in roles])
    return found
