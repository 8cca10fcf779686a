"""Reduction programs inside shard_map, on eight CPU devices."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("jax", reason="JAX is not installed; pip install -c constraints.txt jax")

import jax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hemiola.errors import ReductionError
from hemiola.jax import ReductionExecutor
from hemiola.synthesis.program import ReductionProgram
from hemiola.synthesis.search import programs_up_to
from hemiola.synthesis.table import table_of

jax.config.update("jax_num_cpu_devices", 8)

Numbers = npt.NDArray[np.int32]


def contributions() -> Numbers:
    return np.random.default_rng(8).integers(-1000, 1000, (8, 5, 3), np.int32)


def by_factors(program: ReductionProgram, factors: tuple[int, ...], groups: list[list[int]]) -> Numbers:
    """Row d is what device d ends with."""
    executor = ReductionExecutor(program, factors)
    mesh = executor.mesh(jax.devices(), groups)
    spec = P(mesh.axis_names)
    order = [index for group in groups for index in group]
    run = jax.jit(jax.shard_map(executor.all_reduce, mesh=mesh, in_specs=spec, out_specs=spec))
    found = np.empty_like(contributions())
    found[order] = np.asarray(run(contributions()[order]))
    return found


def by_index_groups(program: ReductionProgram, factors: tuple[int, ...], groups: list[list[int]]) -> Numbers:
    executor = ReductionExecutor(program, factors, tuple(map(tuple, groups)))
    mesh = Mesh(np.array(jax.devices()), ("devices",))
    run = jax.jit(
        jax.shard_map(
            executor.all_reduce, mesh=mesh, in_specs=P("devices"), out_specs=P("devices"), check_vma=False
        )
    )
    return np.asarray(run(contributions()))


def expected(groups: list[list[int]]) -> Numbers:
    data, sums = contributions(), np.empty_like(contributions())
    for group in groups:
        sums[group] = data[group].sum(axis=0)
    return sums


def sample(depth: int, count: int) -> list[ReductionProgram]:
    return random.Random(depth).sample(list(programs_up_to(table_of(depth), 5)), count)


CASES = [
    ((2, 4), [list(range(8))], 6),
    ((2, 2, 2), [list(range(8))], 3),
    ((2, 2), [[0, 1, 4, 5], [2, 3, 6, 7]], 4),
    ((4,), [[0, 2, 4, 6], [7, 5, 3, 1]], 2),
]


@pytest.mark.parametrize(("factors", "groups", "count"), CASES)
def test_sums_on_a_mesh_with_an_axis_for_each_factor(
    factors: tuple[int, ...], groups: list[list[int]], count: int
) -> None:
    for program in sample(len(factors), count):
        assert (by_factors(program, factors, groups) == expected(groups)).all(), str(program)


@pytest.mark.parametrize(("factors", "groups", "count"), CASES)
def test_sums_on_one_axis_with_index_groups(
    factors: tuple[int, ...], groups: list[list[int]], count: int
) -> None:
    for program in sample(len(factors), count):
        assert (by_index_groups(program, factors, groups) == expected(groups)).all(), str(program)


def test_groups_that_do_not_cover_the_axis_are_refused() -> None:
    (program, *_) = programs_up_to(table_of(1), 1)
    with pytest.raises(ReductionError, match="every index"):
        ReductionExecutor(program, (2,), ((0, 1), (1, 2)))
