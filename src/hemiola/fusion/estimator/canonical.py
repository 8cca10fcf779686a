"""canonical_hash: equal for groups that are the same work, whichever operators of whichever graph they are.

Colours are refined as in the test of Weisfeiler and Lehman, in passes along the order in which operators run and against it, so
that a few passes see the whole group. Isomorphic groups always hash alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hemiola.fusion.graph import OpGraph
from hemiola.fusion.plan import Group

NUM_ROUNDS = 2
"""Passes in each direction; the second tells operators apart by who else reads what they read."""


class GroupHasher:
    """Hashes groups of one graph."""

    def __init__(self, graph: OpGraph) -> None:
        self._inputs = [one.inputs for one in graph.operators]
        self._outputs = [one.outputs for one in graph.operators]
        self._signatures = [_stable(one.signature) for one in graph.operators]
        self._tensors = [_stable(f"{one.dtype}{one.shape}") for one in graph.tensors]
        self._readers: list[list[int]] = [[] for _ in graph.tensors]
        for number, one in enumerate(graph.operators):
            for tensor in one.inputs:
                self._readers[tensor].append(number)
        self._leaving = graph.leaving

    def hash(self, group: Group) -> int:
        """Of the work of a group: its operators, how they are connected, what they share and what others read of them."""
        inside = set(group)
        colours = dict(zip(group, (self._signatures[one] for one in group), strict=True))
        tensors = {
            tensor: self._tensors[tensor]
            for one in group
            for tensor in (*self._inputs[one], *self._outputs[one])
        }
        for tensor in tensors:
            readers = self._readers[tensor]
            outside = tensor in self._leaving or any(one not in inside for one in readers)
            tensors[tensor] = hash((tensors[tensor], outside))
        for _ in range(NUM_ROUNDS):
            self._pass_down(group, colours, tensors)
            self._pass_up(group, inside, colours, tensors)
        self._pass_down(group, colours, tensors)
        return hash(tuple(sorted(colours.values())))

    def _pass_down(self, group: Sequence[int], colours: dict[int, int], tensors: dict[int, int]) -> None:
        """Every operator learns what it reads, and its tensors who made them."""
        for one in group:
            colours[one] = hash((colours[one], *[tensors[tensor] for tensor in self._inputs[one]]))
            for place, tensor in enumerate(self._outputs[one]):
                tensors[tensor] = hash((tensors[tensor], colours[one], place))

    def _pass_up(
        self, group: Sequence[int], inside: set[int], colours: dict[int, int], tensors: dict[int, int]
    ) -> None:
        """Every tensor learns who reads it at which place, and operators what becomes of their tensors."""
        uses: dict[int, list[int]] = {tensor: [] for tensor in tensors}
        for one in reversed(group):
            for tensor in self._outputs[one]:
                tensors[tensor] = hash((tensors[tensor], *sorted(uses[tensor])))
            colours[one] = hash((colours[one], *[tensors[tensor] for tensor in self._outputs[one]]))
            for place, tensor in enumerate(self._inputs[one]):
                uses[tensor].append(hash((colours[one], place)))
        made = {tensor for one in group for tensor in self._outputs[one]}
        for tensor in tensors:
            if tensor not in made:
                tensors[tensor] = hash((tensors[tensor], *sorted(uses[tensor])))


def _stable(text: str) -> int:
    """The same in every process, unlike the hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")
