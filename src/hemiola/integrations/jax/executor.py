"""ReductionExecutor: runs a reduction program inside ``shard_map``.

```
reduction = ReductionExecutor(program, (2, 4))
mesh = reduction.mesh(jax.devices())           # one axis for the groups, one for each factor
total = jax.shard_map(reduction.all_reduce, mesh=mesh, in_specs=P(mesh.axis_names), out_specs=P(mesh.axis_names))(x)
```

On a mesh with an axis for each factor, the groups of a step are the devices along some axes, and JAX's collectives take
the names of these axes. On a mesh of one axis, ``index_groups`` lists the devices of every reduction group; JAX then gets
complete lists of indices, which needs ``check_vma=False``.

Every device runs the same code on arrays of the same shape, so tables say which device holds which chunks. Devices that
are in no group of a step take part in the call as well and drop its result. Reduce and broadcast are masked sums, and so
is a step whose groups hold different numbers of chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from hemiola.collectives import CollectiveKind
from hemiola.errors import ReductionError
from hemiola.synthesis.chunk_ownership import GroupStep, Rows, group_steps
from hemiola.synthesis.groups import Grouping, grouping_of, groups_of
from hemiola.synthesis.program import ReductionProgram

GROUPS_AXIS = "groups"


@dataclass(frozen=True)
class ReductionExecutor:
    """A reduction program with the groups of devices that run it."""

    program: ReductionProgram
    factors: tuple[int, ...]
    index_groups: tuple[tuple[int, ...], ...] | None = None
    """The reduction groups as indices of one axis, with every index once; None on a mesh with an axis for each factor."""
    axis: str = "devices"
    """The one axis, where ``index_groups`` are given."""
    request: CollectiveKind = CollectiveKind.ALLREDUCE

    def __post_init__(self) -> None:
        if self.index_groups is None:
            return
        indices = sorted(index for group in self.index_groups for index in group)
        if indices != list(range(len(indices))) or any(
            len(one) != self.num_chunks for one in self.index_groups
        ):
            raise ReductionError(
                f"index groups have {self.num_chunks} indices each and every index of the axis once, but are"
                f" {[list(group) for group in self.index_groups]}"
            )

    @property
    def num_chunks(self) -> int:
        """The number of chunks of the data, which is the number of devices of a group."""
        return prod(self.factors)

    @property
    def factor_axes(self) -> tuple[str, ...]:
        """The names of the mesh axes of the factors, outermost first."""
        return tuple(f"factor{number}" for number in range(len(self.factors)))

    def mesh(
        self, devices: Sequence[jax.Device], groups: Sequence[Sequence[int]] | None = None
    ) -> jax.sharding.Mesh:
        """A mesh with an axis for each factor; ``groups`` lists the indices of the devices of every reduction group in order."""
        chosen = [list(range(len(devices)))] if groups is None else [list(group) for group in groups]
        if any(len(group) != self.num_chunks for group in chosen):
            raise ReductionError(
                f"a reduction over factors {list(self.factors)} has groups of {self.num_chunks} devices, not of"
                f" {sorted({len(group) for group in chosen})}"
            )
        placed = np.array([[devices[index] for index in group] for group in chosen], object)
        return jax.sharding.Mesh(placed.reshape(-1, *self.factors), (GROUPS_AXIS, *self.factor_axes))

    def all_reduce(self, data: jax.Array) -> jax.Array:
        """Inside shard_map: the sum of an array of any shape over the device's reduction group."""
        share = -(-data.size // self.num_chunks)
        padded = jnp.zeros(self.num_chunks * share, data.dtype).at[: data.size].set(data.reshape(-1))
        chunks = self.run(padded.reshape(self.num_chunks, share))
        return chunks.reshape(-1)[: data.size].reshape(data.shape)

    def run(self, chunks: jax.Array) -> jax.Array:
        """Inside shard_map: the chunks after the program; rows that a device does not hold have no defined value."""
        place = self._place()
        steps = group_steps(self.program, self.factors, self.request)
        for instruction, groups in zip(self.program, steps, strict=True):
            grouping = grouping_of(instruction, self.program.depth)
            chunks = self._step(instruction.collective, grouping, groups, place, chunks)
        return chunks

    def _place(self) -> jax.Array:
        """The index of the device in its reduction group."""
        if self.index_groups is None:
            return lax.axis_index(self.factor_axes)
        places = {index: number for group in self.index_groups for number, index in enumerate(group)}
        return jnp.array([places[index] for index in range(len(places))])[lax.axis_index(self.axis)]

    def _step(
        self, collective: CollectiveKind, grouping: Grouping, groups: list[GroupStep], place: jax.Array, chunks: jax.Array
    ) -> jax.Array:  # fmt: skip
        tables = _Tables(groups, self.num_chunks)
        where = self._where(grouping)
        if collective is CollectiveKind.REDUCESCATTER and tables.is_even:
            summed = lax.psum_scatter(
                chunks[tables.all_after[place]], tiled=True, scatter_dimension=0, **where
            )
            changed = chunks.at[tables.after[place]].set(summed)
        elif collective is CollectiveKind.ALLGATHER and tables.is_even:
            gathered = lax.all_gather(chunks[tables.before[place]], axis=0, tiled=True, **where)
            changed = chunks.at[tables.all_before[place]].set(gathered)
        elif collective is CollectiveKind.ALLREDUCE and tables.is_even:
            rows = tables.before[place]
            changed = chunks.at[rows].set(lax.psum(chunks[rows], **where))
        else:
            gives = tables.first_gives if collective is CollectiveKind.BROADCAST else tables.gives
            total = lax.psum(jnp.where(_column(gives[place], chunks), chunks, 0), **where)
            changed = jnp.where(_column(tables.keeps[place], chunks), total.astype(chunks.dtype), chunks)
        return jnp.where(tables.takes_part[place], changed, chunks)

    def _where(self, grouping: Grouping) -> dict[str, Any]:
        """The groups of a step in JAX's arguments. JAX needs every device in a group, so a step of some devices gets all."""
        if self.index_groups is None:
            return {"axis_name": self.factor_axes[grouping.first : grouping.end]}
        everybody = Grouping(grouping.first, grouping.end)
        return {
            "axis_name": self.axis,
            "axis_index_groups": [
                [ranks[member] for member in group]
                for ranks in self.index_groups
                for group in groups_of(everybody, self.factors)
            ],
        }


def _column(mask: jax.Array, chunks: jax.Array) -> jax.Array:
    return mask.reshape(-1, *([1] * (chunks.ndim - 1)))


@dataclass(frozen=True)
class _Tables:
    """Tables of the chunks that devices hold in a step, indexed by a device's index in its reduction group."""

    groups: list[GroupStep]
    num_devices: int

    @cached_property
    def is_even(self) -> bool:
        """Whether all members of all groups hold the same number of chunks before the step, and after it."""
        before = {len(rows) for group in self.groups for rows in group.before}
        after = {len(rows) for group in self.groups for rows in group.after}
        return len(before) == len(after) == 1

    @property
    def takes_part(self) -> jax.Array:
        """Whether a device is in a group of the step."""
        members = {member for group in self.groups for member in group.members}
        return jnp.array([device in members for device in range(self.num_devices)])

    @property
    def before(self) -> jax.Array:
        """The chunks that a device holds before the step."""
        return self._indices([group.before for group in self.groups])

    @property
    def after(self) -> jax.Array:
        """The chunks that a device holds after the step."""
        return self._indices([group.after for group in self.groups])

    @property
    def all_before(self) -> jax.Array:
        """The chunks that all members of a device's group hold before the step, one member after another."""
        return self._indices([_joined(group.before) for group in self.groups])

    @property
    def all_after(self) -> jax.Array:
        """The chunks that all members of a device's group hold after the step, one member after another."""
        return self._indices([_joined(group.after) for group in self.groups])

    @property
    def gives(self) -> jax.Array:
        """A mask of the chunks that a device adds to the sum."""
        return self._mask([group.before for group in self.groups])

    @property
    def first_gives(self) -> jax.Array:
        """The same mask for steps in which only the first member of a group contributes."""
        return self._mask([(group.before[0], *([()] * (len(group.members) - 1))) for group in self.groups])

    @property
    def keeps(self) -> jax.Array:
        """A mask of the chunks that a device takes from the sum."""
        return self._mask([group.after for group in self.groups])

    def _indices(self, rows: Sequence[Sequence[Rows]]) -> jax.Array:
        """A row of chunk numbers for each device; devices in no group get the first chunks, whose results are dropped."""
        table = np.tile(np.arange(len(rows[0][0])), (self.num_devices, 1))
        for group, of_members in zip(self.groups, rows, strict=True):
            for member, own in zip(group.members, of_members, strict=True):
                table[member] = own
        return jnp.array(table)

    def _mask(self, rows: Sequence[Sequence[Rows]]) -> jax.Array:
        table: npt.NDArray[np.bool_] = np.zeros((self.num_devices, self.num_devices), bool)
        for group, of_members in zip(self.groups, rows, strict=True):
            for member, own in zip(group.members, of_members, strict=True):
                table[member, list(own)] = True
        return jnp.array(table)


def _joined(rows: Sequence[Rows]) -> list[Rows]:
    together = tuple(row for own in rows for row in own)
    return [together] * len(rows)
