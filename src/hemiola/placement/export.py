"""export: a placement written in the forms in which people apply it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.exports.jax_mesh import hybrid_shapes, jax_text
from hemiola.placement.exports.megatron import megatron_order, megatron_text
from hemiola.placement.exports.mpi import hostfile_text, rankfile_text, slurm_text
from hemiola.placement.exports.torch_mesh import torch_text
from hemiola.placement.place import PlacementResult


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


FILES: Mapping[str, Callable[[AppliedPlacement], str]] = {
    "permutation.txt": permutation_text,
    "jax_mesh.py": jax_text,
    "torch_mesh.py": torch_text,
    "megatron_order.txt": megatron_text,
    "rankfile": rankfile_text,
    "hostfile": hostfile_text,
    "slurm_hostfile": slurm_text,
    "placement.json": json_text,
}
"""Names of files and what is in them."""


def write_exports(result: PlacementResult, folder: Path) -> list[Path]:
    """Write the best placement into a folder, a file for each form."""
    folder.mkdir(parents=True, exist_ok=True)
    placement = result.applied()
    written = []
    for name, text in FILES.items():
        (folder / name).write_text(text(placement), "utf-8")
        written.append(folder / name)
    return written
