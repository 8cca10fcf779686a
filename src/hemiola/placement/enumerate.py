"""enumerate: every way to put axes on levels.

A matrix of positive integers with given row and column products is, for each prime by itself, a table of exponents with
given row and column sums (a contingency table); every choice of one table for each prime is a matrix, and none comes twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

from hemiola.placement.axes import Axes, check_sizes
from hemiola.placement.matrix import ParallelismMatrix, Rows
from hemiola.topology.system import System


def enumerate_placements(system: System, axes: Axes) -> Iterator[ParallelismMatrix]:
    """Every parallelism matrix of the axes on a system's levels, one after another, none twice."""
    counts = level_counts(system)
    check_sizes(axes, math.prod(counts), system.name)
    return (ParallelismMatrix(axes, counts, rows) for rows in matrices([axis.size for axis in axes], counts))


def level_counts(system: System) -> tuple[int, ...]:
    """The units of each level, missing ones too."""
    return tuple(level.count for level in system.levels)


def matrices(rows: Sequence[int], columns: Sequence[int]) -> Iterator[Rows]:
    """Every matrix of positive integers with these products of rows and of columns."""
    primes = _primes_of(math.prod(columns))
    return _times_tables(tuple(tuple(1 for _ in columns) for _ in rows), primes, rows, columns)


def num_matrices(rows: Sequence[int], columns: Sequence[int]) -> int:
    """How many there are, by counting the tables of each prime instead of making them."""
    if math.prod(rows) != math.prod(columns):
        return 0
    return math.prod(
        num_tables(_exponents(rows, prime), _exponents(columns, prime))
        for prime in _primes_of(math.prod(columns))
    )


def tables(rows: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[Rows]:
    """Every table of whole numbers from 0 with these sums of rows and of columns, which have one total."""
    if len(rows) == 1:
        yield (columns,)
        return
    for first in _rows_below(rows[0], columns):
        rest = tuple(limit - taken for limit, taken in zip(columns, first, strict=True))
        for following in tables(rows[1:], rest):
            yield (first, *following)


@cache
def num_tables(rows: tuple[int, ...], columns: tuple[int, ...]) -> int:
    """How many such tables there are; the order of columns changes nothing."""
    if len(rows) == 1:
        return 1
    rests = (
        tuple(sorted(limit - taken for limit, taken in zip(columns, first, strict=True)))
        for first in _rows_below(rows[0], columns)
    )
    return sum(num_tables(rows[1:], rest) for rest in rests)


def _times_tables(
    matrix: Rows, primes: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Iterator[Rows]:
    """The matrix times every choice of tables for the primes."""
    if not primes:
        yield matrix
        return
    prime, rest = primes[0], primes[1:]
    for table in tables(_exponents(rows, prime), _exponents(columns, prime)):
        product = tuple(
            tuple(entry * prime**exponent for entry, exponent in zip(row, powers, strict=True))
            for row, powers in zip(matrix, table, strict=True)
        )
        yield from _times_tables(product, rest, rows, columns)


def _rows_below(total: int, limits: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Whole numbers from 0 up to the limits that add up to the total."""
    if len(limits) == 1:
        if total <= limits[0]:
            yield (total,)
        return
    least = max(0, total - sum(limits[1:]))
    for first in range(least, min(total, limits[0]) + 1):
        for rest in _rows_below(total - first, limits[1:]):
            yield (first, *rest)


def _exponents(numbers: Sequence[int], prime: int) -> tuple[int, ...]:
    found = []
    for number in numbers:
        exponent = 0
        while number % prime == 0:
            number, exponent = number // prime, exponent + 1
        found.append(exponent)
    return tuple(found)


def _primes_of(number: int) -> list[int]:
    primes, divisor = [], 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            primes.append(divisor)
            while number % divisor == 0:
                number //= divisor
        divisor += 1
    return [*primes, number] if number > 1 else primes
