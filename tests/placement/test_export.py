"""Exports: the files that people apply, the Python ones run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hemiola.placement.applied import AppliedPlacement
from hemiola.placement.axes import parse_axes
from hemiola.placement.enumerate import enumerate_placements, level_counts
from hemiola.placement.export import FILES, placement_fields
from hemiola.placement.exports.jax_mesh import hybrid_shapes, jax_text
from hemiola.placement.exports.torch_mesh import torch_text
from hemiola.placement.matrix import ParallelismMatrix
from hemiola.topology.presets import load_system

SYSTEM = replace(load_system("2x4"), host_names=("alpha", "beta"))
AXES = parse_axes("data=4,model=2")


def applied(*rows: tuple[int, ...], axes: str = "data=4,model=2") -> AppliedPlacement:
    matrix = ParallelismMatrix(parse_axes(axes), level_counts(SYSTEM), rows)
    return AppliedPlacement(SYSTEM, matrix.axes, matrix.device_grid(), matrix)


SPLIT = applied((1, 4), (2, 1))
"""The data axis inside hosts, the model axis across."""


def test_json_has_everything() -> None:
    fields = json.loads(FILES["placement.json"].text(SPLIT) or "")
    assert fields == placement_fields(SPLIT)
    assert fields["matrix"] == [[1, 4], [2, 1]]
    assert fields["create_hybrid_device_mesh"] == {"mesh_shape": [4, 1], "dcn_mesh_shape": [1, 2]}


def test_hybrid_shapes_are_the_two_parts_of_the_matrix() -> None:
    for matrix in enumerate_placements(SYSTEM, AXES):
        shapes = hybrid_shapes(AppliedPlacement(SYSTEM, AXES, matrix.device_grid(), matrix))
        assert shapes == (tuple(row[1] for row in matrix.rows), tuple(row[0] for row in matrix.rows))
    assert hybrid_shapes(AppliedPlacement(SYSTEM, AXES, SPLIT.grid, None)) is None


def run(folder: Path, *lines: str, **environment: str) -> str:
    """What a Python program prints that imports files of a folder."""
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_torch_makes_the_mesh(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    (tmp_path / "torch_mesh.py").write_text(torch_text(SPLIT))
    found = run(
        tmp_path,
        "import torch.distributed as dist, json",
        "from torch.testing._internal.distributed.fake_pg import FakeStore",
        "dist.init_process_group('fake', store=FakeStore(), rank=5, world_size=8)",
        "from torch_mesh import device_mesh",
        "mesh = device_mesh('cpu')",
        "groups = [dist.get_process_group_ranks(mesh.get_group(name)) for name in mesh.mesh_dim_names]",
        "print(json.dumps([mesh.mesh.tolist(), mesh.mesh_dim_names, mesh.get_coordinate(), groups]))",
    )
    assert json.loads(found) == [SPLIT.grid.tolist(), ["data", "model"], [1, 1], [[4, 5, 6, 7], [1, 5]]]


def test_jax_makes_the_mesh(tmp_path: Path) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed; pip install hemiola[jax]")
    (tmp_path / "jax_mesh.py").write_text(jax_text(SPLIT))
    found = run(
        tmp_path,
        "import json, jax, numpy as np",
        "from jax.sharding import NamedSharding, PartitionSpec",
        "from jax_mesh import device_mesh",
        "mesh = device_mesh()",
        "ids = np.vectorize(lambda device: device.id)(mesh.devices).tolist()",
        "array = jax.device_put(np.arange(4), NamedSharding(mesh, PartitionSpec('data')))",
        "held = {shard.device.id: int(shard.data[0]) for shard in array.addressable_shards}",
        "print(json.dumps([ids, mesh.axis_names, [held[device] for device in range(8)]]))",
        XLA_FLAGS="--xla_force_host_platform_device_count=8",
        JAX_PLATFORMS="cpu",
    )
    coordinates = SPLIT.matrix.coordinates() if SPLIT.matrix else np.empty((0, 2))
    assert json.loads(found) == [SPLIT.grid.tolist(), ["data", "model"], coordinates[:, 0].tolist()]


def test_hybrid_arguments_make_the_same_mesh(tmp_path: Path) -> None:
    """Where every process is a host of four devices; JAX looks at nothing else of a device here."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed; pip install hemiola[jax]")
    placements = [
        AppliedPlacement(SYSTEM, AXES, one.device_grid(), one) for one in enumerate_placements(SYSTEM, AXES)
    ]
    shapes = [hybrid_shapes(placement) for placement in placements]
    found = run(
        tmp_path,
        "import json, numpy as np",
        "from types import SimpleNamespace",
        "from jax.experimental.mesh_utils import create_hybrid_device_mesh",
        "devices = [SimpleNamespace(id=n, process_index=n // 4, platform='gpu', device_kind='any') for n in range(8)]",
        f"meshes = [create_hybrid_device_mesh(*s, devices, process_is_granule=True) for s in {shapes}]",
        "print(json.dumps([np.vectorize(lambda device: device.id)(mesh).tolist() for mesh in meshes]))",
        JAX_PLATFORMS="cpu",
    )
    assert json.loads(found) == [placement.grid.tolist() for placement in placements]
