"""Meshes of well-known form: rings, tori, and full meshes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product

from hemiola.topology.system import Edge

Pair = tuple[int, int]


def ring_pairs(count: int) -> Iterator[Pair]:
    """Every unit with the next, the last with the first; two units have one edge."""
    return torus_pairs([count])


def full_pairs(count: int) -> Iterator[Pair]:
    """Every unit with every other."""
    return combinations(range(count), 2)


def torus_pairs(sizes: Sequence[int]) -> Iterator[Pair]:
    """Units in a grid whose lines are closed to rings, numbered with the last coordinate fastest.

    >>> list(torus_pairs([2, 3]))
    [(0, 3), (0, 1), (1, 4), (1, 2), (2, 5), (2, 0), (3, 4), (4, 5), (5, 3)]
    """
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    for number, place in enumerate(product(*map(range, sizes))):
        for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
            last = place[axis] == size - 1
            # In a line of two units the edge that closes the ring would be the same edge again.
            if not last or size > 2:
                yield number, number - (size - 1) * stride if last else number + stride


FORMS: Mapping[str, Callable[[int], Iterator[Pair]]] = {"ring": ring_pairs, "full": full_pairs}
"""The forms that are defined by the number of units alone."""


def form_of(edges: Sequence[Edge], count: int) -> str | None:
    """The form of a mesh with equal edges; None where the edges differ or have no such form."""
    if len({(edge.bandwidth, edge.latency) for edge in edges}) != 1:
        return None
    pairs = [(edge.first, edge.second) for edge in edges]
    sizes = {"ring": count, "full": count * (count - 1) // 2}
    return next(
        (form for form, make in FORMS.items() if len(pairs) == sizes[form] and pairs == list(make(count))),
        None,
    )
