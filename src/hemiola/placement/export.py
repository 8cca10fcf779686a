"""export: a placement written in the forms in which people apply it, with a README that says how."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.exports.jax_mesh import hybrid_shapes, jax_text
from hemiola.placement.exports.megatron import (
    megatron_args_text,
    megatron_flags,
    megatron_init_text,
    megatron_order,
    why_no_megatron,
)
from hemiola.placement.exports.mpi import hostfile_text, rankfile_text, ranks_text, slurm_text
from hemiola.placement.exports.node_order import slurm_devices_text, torchrun_text
from hemiola.placement.exports.torch_mesh import torch_text
from hemiola.placement.host_cpus import HostCpus
from hemiola.placement.place import PlacementResult

README_NAME = "README.md"


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One form of a placement."""

    text: Callable[[AppliedPlacement], str | None]
    """What is in the file; nothing where this form cannot say the placement."""
    how: str
    """How it is applied."""


def placement_fields(placement: AppliedPlacement) -> dict[str, Any]:
    """All of a placement as JSON."""
    hybrid = hybrid_shapes(placement)
    return {
        "system": placement.system.name,
        "axes": {axis.name: axis.size for axis in placement.axes},
        "matrix": None if placement.matrix is None else [list(row) for row in placement.matrix.rows],
        "permutation": placement.permutation,
        "hosts": [placement.host_and_slot(device)[0] for device in placement.permutation],
        "megatron_order": megatron_order(placement),
        "megatron_flags": megatron_flags(placement),
        "create_hybrid_device_mesh": None
        if hybrid is None
        else {"mesh_shape": list(hybrid[0]), "dcn_mesh_shape": list(hybrid[1])},
    }


def permutation_text(placement: AppliedPlacement) -> str:
    """The device at each coordinate, one a line, the last axis counting fastest."""
    return "".join(f"{device}\n" for device in placement.permutation)


def json_text(placement: AppliedPlacement) -> str:
    """`placement_fields` as a document."""
    return json.dumps(placement_fields(placement), indent=2) + "\n"


_BY_DEVICE = "start the job with rank r on device r: `torchrun_nodes.txt` or `slurm_devices_hostfile`"

FILES: Mapping[str, ExportedFile] = {
    "permutation.txt": ExportedFile(
        permutation_text, "for your own launcher: the device of every coordinate, one a line, the last axis fastest."
    ),
    "jax_mesh.py": ExportedFile(jax_text, "`from jax_mesh import device_mesh`, after `jax.distributed.initialize`; hosts as processes, in order."),
    "torch_mesh.py": ExportedFile(
        torch_text, f"`from torch_mesh import device_mesh`, after `init_process_group`; {_BY_DEVICE}."
    ),
    "megatron_args.sh": ExportedFile(
        megatron_args_text, f"`source megatron_args.sh`, and pass `$MEGATRON_PARALLEL_ARGS` to the training script; {_BY_DEVICE}."
    ),
    "megatron_init.py": ExportedFile(
        megatron_init_text, f"call its `initialize` in place of Megatron's `initialize_model_parallel`; {_BY_DEVICE}."
    ),
    "torchrun_nodes.txt": ExportedFile(
        torchrun_text, "start `torchrun` on every host with the `--node-rank` that stands before its name."
    ),
    "slurm_devices_hostfile": ExportedFile(
        slurm_devices_text, "`SLURM_HOSTFILE=slurm_devices_hostfile srun --distribution=arbitrary ...`: rank r is on device r."
    ),
    "rankfile": ExportedFile(
        rankfile_text, "`mpirun -np N --rankfile rankfile ...`: rank n is coordinate n, bound to the NUMA node of its device."
    ),
    "hostfile": ExportedFile(hostfile_text, "`mpirun --hostfile hostfile ...`, where your launcher needs the hosts with their slots."),
    "slurm_hostfile": ExportedFile(
        slurm_text, "`SLURM_HOSTFILE=slurm_hostfile srun --distribution=arbitrary ...`: rank n is coordinate n, its device stands in `ranks.txt`."
    ),
    "ranks.txt": ExportedFile(ranks_text, "for jobs whose rank n is coordinate n (`rankfile`, `slurm_hostfile`): the host and the device of each rank."),
    "placement.json": ExportedFile(
        json_text, "`--placement placement.json` of `hemiola simulate`, `tune` and `synthesize`."
    ),
}  # fmt: skip
"""Names of files, what is in them, and how they are applied."""


def write_exports(
    result: PlacementResult, folder: Path, *, host_cpus: HostCpus | None = None, assumed: str | None = None
) -> list[Path]:
    """Write the best placement into a folder, a file for each form that can say it; ``assumed`` is what nobody said about the traffic."""
    return write_placement(replace(result.applied(), host_cpus=host_cpus), folder, assumed=assumed)


def write_placement(placement: AppliedPlacement, folder: Path, *, assumed: str | None = None) -> list[Path]:
    """Write a placement into a folder, whatever made it."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: file.text(placement) for name, file in FILES.items()}
    written = {name: text for name, text in texts.items() if text is not None}
    written[README_NAME] = readme_text(placement, list(written), assumed)
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    for name, text in written.items():
        (folder / name).write_text(text, "utf-8")
    return [folder / name for name in written]


def readme_text(placement: AppliedPlacement, names: list[str], assumed: str | None) -> str:
    """How each file is applied, and what is missing and why."""
    axes = ", ".join(f"{axis.name}={axis.size}" for axis in placement.axes)
    lines = [f"# {axes} on system {placement.system.name}", ""]
    if assumed is not None:
        lines += [f"**{assumed}**", ""]
    lines += ["Apply one of these:", "", *(f"- `{name}`: {FILES[name].how}" for name in names)]
    why = why_no_megatron(placement)
    if why is not None:
        lines += ["", f"No file for Megatron-LM: {why}."]
    return "\n".join(lines) + "\n"
