"""JAX: a Mesh with the devices in the order of the placement, and hybrid-mesh arguments where they say the same."""

from __future__ import annotations

import math

import numpy as np

from hemiola.placement.applied import AppliedPlacement


def jax_text(placement: AppliedPlacement) -> str:
    """A Python file whose ``device_mesh`` makes the mesh."""
    return f'''"""The mesh of system {placement.system.name}: jax.devices() in order of hosts and of their devices."""

import jax
import numpy as np
from jax.sharding import Mesh

ORDER = {placement.permutation}
SHAPE = {placement.shape}
NAMES = {placement.names}


def device_mesh():
    return Mesh(np.array(jax.devices())[ORDER].reshape(SHAPE), NAMES)
{_hybrid_text(placement)}'''


def hybrid_shapes(placement: AppliedPlacement) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """mesh_shape and dcn_mesh_shape of create_hybrid_device_mesh, or nothing where it would make another mesh.

    It counts through the hosts by one shape and through the devices of a host by the other, and knows no levels between.
    """
    matrix, depth = placement.matrix, placement.system.host_depth
    if matrix is None or not 0 < depth < len(matrix.counts):
        return None
    inside = tuple(math.prod(row[depth:]) for row in matrix.rows)
    across = tuple(math.prod(row[:depth]) for row in matrix.rows)
    num_axes, num_inside = len(inside), math.prod(inside)
    hosts = np.arange(math.prod(across)).reshape(across)
    devices = np.arange(num_inside).reshape(inside)
    both = hosts.reshape([*across, *[1] * num_axes]) * num_inside + devices
    order = [number for axis in range(num_axes) for number in (axis, num_axes + axis)]
    grid = both.transpose(order).reshape(placement.shape)
    return (inside, across) if np.array_equal(grid, placement.grid) else None


def _hybrid_text(placement: AppliedPlacement) -> str:
    shapes = hybrid_shapes(placement)
    if shapes is None:
        return "\n\n# jax.experimental.mesh_utils.create_hybrid_device_mesh cannot express this order.\n"
    inside, across = shapes
    return f"""

# The same by jax.experimental.mesh_utils, where every process is a host:
# create_hybrid_device_mesh(mesh_shape={inside}, dcn_mesh_shape={across}, process_is_granule=True)
"""
