"""The sizes and shapes at which the library is tested, for every algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hemiola.algorithms.algorithm import Algorithm
from hemiola.collectives import FACTS

RANKS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 32, 64)

LEVELS: dict[int, list[tuple[int, ...]]] = {
    1: [(1,), (1, 1)],
    2: [(2,), (1, 2), (2, 1)],
    3: [(3,), (3, 1)],
    4: [(2, 2), (4, 1)],
    5: [(5,), (1, 5)],
    7: [(7,), (7, 1)],
    8: [(2, 4), (4, 2), (2, 2, 2)],
    12: [(3, 4), (4, 3), (6, 2), (3, 2, 2), (2, 3, 2)],
    15: [(5, 3), (3, 5)],
    16: [(2, 8), (4, 4), (2, 2, 4)],
    18: [(9, 2), (2, 9), (3, 3, 2)],
    32: [(4, 8), (16, 2), (2, 2, 8)],
    64: [(8, 8), (4, 16), (2, 4, 8)],
}

EXCHANGES = (("ring", "ring"), ("allpairs", "ring"), ("halving", "allpairs"), ("ring", "halving"))
"""(inside, across)."""


def parameters(algorithm: Algorithm, ranks: Sequence[int] = RANKS) -> Iterator[dict[str, Any]]:
    """The own parameters of ``algorithm`` at every size, apart from place, instances and protocol."""
    for n in ranks:
        for own in _own_parameters(algorithm, n):
            if algorithm.refusal(ranks=n, **own) is None:
                yield {"ranks": n, **own}


def places(algorithm: Algorithm) -> tuple[bool, ...]:
    """The values of ``in_place`` that the collective has."""
    return (False, True) if FACTS[algorithm.kind].can_be_in_place else (False,)


def _own_parameters(algorithm: Algorithm, n: int) -> Iterator[dict[str, Any]]:
    names = set(algorithm.parameters)
    if "inside" in names:
        for levels in LEVELS.get(n, []):
            for inside, across in EXCHANGES:
                yield {"levels": levels, "inside": inside, "across": across}
    elif "levels" in names:
        yield from ({"levels": levels} for levels in LEVELS.get(n, []))
    elif "root" in names:
        yield from ({"root": root} for root in sorted({0, n // 2, n - 1}))
    elif "chunks" in names:
        yield from ({"chunks": chunks} for chunks in (1, 3))
    elif "source" in names:
        yield from ({"source": source, "destination": n - 1 - source} for source in sorted({0, n - 1}))
    else:
        yield {}
