"""Rings, tori and full meshes."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.topology.meshes import form_of, full_pairs, ring_pairs, torus_pairs
from hemiola.topology.parse.yaml_system import read_system
from hemiola.topology.system import Edge


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_every_unit_of_a_torus_has_its_neighbours(sizes: list[int]) -> None:
    pairs = list(torus_pairs(sizes))
    places = list(product(*map(range, sizes)))
    degree = sum(min(size - 1, 2) for size in sizes)
    assert len(set(map(frozenset, pairs))) == len(pairs) == math.prod(sizes) * degree // 2
    for first, second in pairs:
        apart = [(b - a) % size for a, b, size in zip(places[first], places[second], sizes, strict=True)]
        assert sorted(apart)[:-1] == [0] * (len(sizes) - 1)
        assert max(apart) == 1
    ends = Counter(end for pair in pairs for end in pair)
    assert all(ends[unit] == degree for unit in range(len(places)))


@pytest.mark.parametrize(("count", "ring", "full"), [(1, 0, 0), (2, 1, 1), (3, 3, 3), (4, 4, 6), (8, 8, 28)])
def test_the_number_of_edges(count: int, ring: int, full: int) -> None:
    assert len(list(ring_pairs(count))) == ring
    assert len(list(full_pairs(count))) == full


def test_a_form_is_known_where_all_edges_are_alike() -> None:
    ring = [Edge(a, b, 1e9) for a, b in ring_pairs(5)]
    full = [Edge(a, b, 1e9) for a, b in full_pairs(5)]
    assert (form_of(ring, 5), form_of(full, 5)) == ("ring", "full")
    assert form_of(ring[:-1], 5) is None
    assert form_of(ring, 6) is None
    assert form_of([*ring[:-1], Edge(4, 0, 2e9)], 5) is None
    assert form_of([], 5) is None


def test_forms_in_yaml() -> None:
    def edges(form: str) -> set[tuple[int, int, float, float]]:
        text = f"levels: [{{name: gpu, count: 6, fabric: {{kind: mesh, edges: {form}}}}}]"
        found = read_system(text).levels[0].fabric.edges
        return {(edge.first, edge.second, edge.bandwidth, edge.latency) for edge in found}

    assert edges("{form: ring, bandwidth: 1GB/s}") == {(a, b, 1e9, 0.0) for a, b in ring_pairs(6)}
    assert edges("{form: full, bandwidth: 1GB/s, latency: 1us}") == {
        (a, b, 1e9, 1e-6) for a, b in full_pairs(6)
    }
    assert edges("{form: torus, sizes: [2, 3], bandwidth: 1GB/s}") == {
        (a, b, 1e9, 0.0) for a, b in torus_pairs([2, 3])
    }
