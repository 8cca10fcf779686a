"""Amounts: what the operators of a part do, as numbers that add up to its time; the physical prior weighs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from hemiola.fusion.estimator.operator_facts import LOOP_NAMES, Integers, Numbers, OperatorFacts
from hemiola.fusion.estimator.parts import GroupParts
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.plan import Group

SIZE_CLASSES = (1 << 18, 1 << 22)
"""Bytes of a tensor up to which it stays in a cache of the core, and up to which its memory is used again without page faults."""
NUM_CLASSES = len(SIZE_CLASSES) + 1

OPERATOR_AMOUNTS = (
    "seconds of kernels of their own",
    *(f"bytes read, tensors of class {one}" for one in range(NUM_CLASSES)),
    *(f"bytes written, tensors of class {one}" for one in range(NUM_CLASSES)),
    *(f"elements of {name} loops" for name in LOOP_NAMES),
    "elements of integer loops",
    "elements of strided loops",
    "seconds of loops alone",
)
GROUP_AMOUNTS = ("calls", "inputs", "outputs", "buffers", "loops", "kernels")


def size_class(sizes: Numbers) -> Integers:
    """Of tensors by their bytes."""
    return np.searchsorted(np.array(SIZE_CLASSES, dtype=float), sizes, side="left")


class PartAmounts:
    """The amounts of parts of groups of one graph."""

    def __init__(self, graph: OpGraph, facts: OperatorFacts) -> None:
        self._facts = facts
        self._inputs = [one.inputs for one in graph.operators]
        self._outputs = [one.outputs for one in graph.operators]
        self._classes: list[int] = size_class(facts.tensor_bytes).tolist()
        self._bytes: list[float] = facts.tensor_bytes.tolist()
        self._readers: list[list[int]] = [[] for _ in graph.tensors]
        for number, one in enumerate(graph.operators):
            for tensor in one.inputs:
                self._readers[tensor].append(number)
        self._leaving = graph.leaving
        self._loops = self._loop_amounts()

    def _loop_amounts(self) -> Numbers:
        """What an operator does wherever it is; the bytes depend on the part."""
        facts = self._facts
        table = np.zeros((len(facts.kinds), len(OPERATOR_AMOUNTS)))
        alone, begin = facts.stands_alone, 1 + 2 * NUM_CLASSES
        table[alone, 0] = facts.work_seconds[alone]
        loops = np.flatnonzero(~alone)
        table[loops, begin + facts.loops[loops]] = facts.elements[loops]
        table[loops, -3] = facts.elements[loops] * facts.is_integer[loops]
        table[loops, -2] = facts.elements[loops] * facts.is_strided[loops]
        table[loops, -1] = facts.work_seconds[loops]
        return table

    def of_part(self, part: Group) -> Numbers:
        """A row per operator. Bytes that several operators of a part read are divided among them, so that their order does not count."""
        rows: Numbers = self._loops[list(part)]
        if self._facts.stands_alone[part[0]]:
            return rows
        inside = set(part)
        made = {tensor for one in part for tensor in self._outputs[one]}
        readers = Counter(tensor for one in part for tensor in self._inputs[one])
        for row, one in enumerate(part):
            for tensor in self._inputs[one]:
                if tensor not in made:
                    rows[row, 1 + self._classes[tensor]] += self._bytes[tensor] / readers[tensor]
            for tensor in self._outputs[one]:
                if tensor in self._leaving or any(reader not in inside for reader in self._readers[tensor]):
                    rows[row, 1 + NUM_CLASSES + self._classes[tensor]] += self._bytes[tensor]
        return rows

    def of_group(self, parts: GroupParts) -> Numbers:
        """The amounts of the call itself."""
        kernels = sum(bool(self._facts.stands_alone[part[0]]) for part in parts.parts)
        loops = len(parts.parts) - kernels
        return np.array(
            [1, parts.num_inputs, parts.num_outputs, parts.num_buffers, loops, kernels], dtype=float
        )


def stack(rows: Sequence[Numbers]) -> tuple[Numbers, Integers]:
    """The rows of several parts as one table, and the part of every row."""
    counts = [len(one) for one in rows]
    return np.concatenate(rows), np.repeat(np.arange(len(rows)), counts)
