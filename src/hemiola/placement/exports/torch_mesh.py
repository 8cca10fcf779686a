"""torch: a DeviceMesh with the ranks in the order of the placement."""

from __future__ import annotations

from hemiola.placement.applied import AppliedPlacement


def torch_text(placement: AppliedPlacement) -> str:
    """A Python file whose ``device_mesh`` makes the mesh, when the process group is up; rank r is on device r."""
    return f'''"""The mesh of system {placement.system.name}: rank r is on device r, hosts and their devices in order."""

import torch
from torch.distributed.device_mesh import DeviceMesh

RANKS = {placement.permutation}
SHAPE = {placement.shape}
NAMES = {placement.names}


def device_mesh(device_type="cuda"):
    return DeviceMesh(device_type, torch.tensor(RANKS).reshape(SHAPE), mesh_dim_names=NAMES)
'''
