"""split_group: the parts of a group that are kernels of their own, and those that the compiler fuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.fusion.graph import OpGraph
from hemiola.fusion.plan import Group


@dataclass(frozen=True, slots=True)
class GroupParts:
    """A group as the compiler runs it."""

    parts: tuple[Group, ...]
    """Kernels of their own, a part each, and the connected loops between them."""
    num_inputs: int
    num_outputs: int
    num_buffers: int
    """Tensors that the group allocates: what its parts make for each other and for others."""


class GroupSplitter:
    """Splits groups of one graph.

    Loops that are connected are one part, unless a kernel of its own lies between them: every operator gets the number of such kernels
    on the longest way to it inside of the group, and only operators with equal numbers share a part.
    """

    def __init__(self, graph: OpGraph, stands_alone: npt.NDArray[np.bool_]) -> None:
        self._inputs = [one.inputs for one in graph.operators]
        self._outputs = [one.outputs for one in graph.operators]
        self._alone: list[bool] = stands_alone.tolist()
        self._producers = graph.producers
        readers: list[list[int]] = [[] for _ in graph.tensors]
        for number, one in enumerate(graph.operators):
            for tensor in one.inputs:
                readers[tensor].append(number)
        self._readers = [tuple(one) for one in readers]
        self._leaving = graph.leaving

    def split(self, group: Group) -> GroupParts:
        """Parts in the order of their first operators."""
        part_of = self._parts(group)
        parts: dict[int, list[int]] = {}
        for one in group:
            parts.setdefault(part_of[one], []).append(one)
        inside, given, buffers, leaving = part_of, set[int](), 0, 0
        for one in group:
            for tensor in self._inputs[one]:
                if self._producers.get(tensor, -1) not in inside:
                    given.add(tensor)
            for tensor in self._outputs[one]:
                home, readers = part_of[one], self._readers[tensor]
                goes_out = tensor in self._leaving or any(reader not in inside for reader in readers)
                leaving += goes_out
                buffers += goes_out or any(part_of[reader] != home for reader in readers)
        return GroupParts(tuple(tuple(one) for one in parts.values()), len(given), leaving, buffers)

    def _parts(self, group: Sequence[int]) -> dict[int, int]:
        """The part of every operator, named by one of its operators."""
        level: dict[int, int] = {}
        parent: dict[int, int] = {one: one for one in group}

        def root(one: int) -> int:
            while parent[one] != one:
                parent[one] = one = parent[parent[one]]
            return one

        for one in group:
            sources = [
                source
                for tensor in self._inputs[one]
                if (source := self._producers.get(tensor)) is not None and source in level
            ]
            level[one] = max((level[source] + self._alone[source] for source in sources), default=0)
            if not self._alone[one]:
                for source in sources:
                    if not self._alone[source] and level[source] == level[one]:
                        parent[root(source)] = root(one)
        return {one: root(one) for one in group}
