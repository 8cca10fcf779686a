"""Check: the expected value of every element of an output after a trial, and the first element that differs.

Data that is only moved must arrive bit by bit; integers (which wrap), minima and maxima are exact. A floating sum of n
numbers may be computed in any order with n - 1 roundings, so its error may be (n - 1) * epsilon * sum|x|; it must be
exact where all n are integers whose sums the type can hold. A product may have the error (n - 1) * epsilon * |product|.
An average is the sum divided by the number of ranks, rounded once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hemiola.collectives import FACTS
from hemiola.runtime.checking.trial import Trial
from hemiola.runtime.communicator.numbers import Number, NumpyArray


@dataclass(frozen=True, slots=True)
class Wrong:
    """An element that differs from its expected value."""

    rank: int
    buffer: str
    index: int
    expected: str
    found: str

    def __str__(self) -> str:
        return (
            f"rank {self.rank}: element {self.index} of its {self.buffer} should be {self.expected}, "
            f"but is {self.found}"
        )


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected values of ``length`` elements of a buffer from ``first`` on: ``values``, repeated as often as needed."""

    first: int
    length: int
    values: NumpyArray
    """Stored values where bits are compared, otherwise values of the wide type."""
    bound: NumpyArray | None = None
    """The largest error of each value; None where bits are compared."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected output of a rank after a trial, and its input for plans that must not change it."""

    rank: int
    number: Number
    output: tuple[Expected, ...]
    input: tuple[Expected, ...]

    def check_output(self, found: NumpyArray) -> Wrong | None:
        """The first wrong element of the output; None when all are right."""
        return self._check("output", self.output, found)

    def check_input(self, found: NumpyArray) -> Wrong | None:
        """The first element of the input that has changed; None when none has."""
        return self._check("input", self.input, found)

    @property
    def num_checked(self) -> int:
        """The number of elements of the output whose values the collective defines."""
        return sum(expected.length for expected in self.output)

    def _check(self, buffer: str, rows: tuple[Expected, ...], found: NumpyArray) -> Wrong | None:
        for expected in sorted(rows, key=lambda row: row.first):
            for first, count in _periods(expected):
                part = found[first : first + count]
                wrong = _differs(self.number, expected, part)
                if wrong.any():
                    at = int(np.argmax(wrong))
                    return Wrong(self.rank, buffer, first + at, *_describe(self.number, expected, part, at))
        return None


def expect(trial: Trial, rank: int) -> Expectation:
    """The expected buffers of ``rank`` after ``trial``, computed without communication."""
    meaning = trial.meaning()
    patterns: dict[int, NumpyArray] = {}
    rows = []
    for row in np.flatnonzero(meaning.promised["rank"] == rank).tolist():
        promise = meaning.promised[row]
        for k in range(int(promise["count"]) if trial.share else 0):
            origins = sorted(meaning.contributions(row, k))
            first = (int(promise["index"]) + k) * trial.share
            rows.append(_expect_share(trial, first, origins, patterns))
    kept = Expected(0, _num_input(trial, rank), trial.pattern(rank))
    return Expectation(rank, trial.number, tuple(rows), (kept,))


def _num_input(trial: Trial, rank: int) -> int:
    return len(trial.make_buffers(rank).input)


def _expect_share(
    trial: Trial, first: int, origins: list[tuple[int, int]], patterns: dict[int, NumpyArray]
) -> Expected:
    """The expected values of one share of an output; ``origins`` are its contributions, (rank, share of the input)."""
    parts = []
    for rank, index in origins:
        if rank not in patterns:
            patterns[rank] = trial.pattern(rank)
        parts.append(_one_period(patterns[rank], index * trial.share, trial.share))
    averaged = trial.op == "avg" and FACTS[trial.collective.kind].sums
    if len(parts) == 1 and not averaged:
        return Expected(first, trial.share, parts[0])
    divisor = trial.collective.num_ranks if averaged else None
    values, bound = _combine(trial.number, "sum" if trial.op == "avg" else trial.op, parts, divisor)
    return Expected(first, trial.share, values, bound)


def _one_period(pattern: NumpyArray, first: int, length: int) -> NumpyArray:
    """``length`` elements of a repeated pattern from ``first`` on, or one period of them if that is shorter."""
    first, length = first % len(pattern), min(length, len(pattern))
    part = pattern[first : first + length]
    return np.concatenate([part, pattern[: length - len(part)]])


def _combine(
    number: Number, op: str, parts: list[NumpyArray], divisor: int | None
) -> tuple[NumpyArray, NumpyArray]:
    """The exact reduction of contributions, and the largest error that a computed one may have."""
    reduce = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    wide = [number.widen(part) for part in parts]
    value = wide[0].copy()
    with np.errstate(over="ignore"):
        for part in wide[1:]:
            reduce(value, part, out=value)
    if not number.is_floating or op in ("min", "max"):
        bound = np.zeros(len(value))
    else:
        bound = _bound_of_roundings(number, op, wide, value)
    if divisor is None:
        return value, bound
    if not number.is_floating:
        return _divide_towards_zero(value, divisor), bound
    mean = value / divisor
    return mean, bound / divisor + number.epsilon * np.abs(mean) + number.smallest


def _bound_of_roundings(number: Number, op: str, wide: list[NumpyArray], value: NumpyArray) -> NumpyArray:
    assert number.significand_bits is not None
    roundings = len(wide) - 1
    # The expected value was rounded as often, in the wide type.
    epsilon = roundings * (number.epsilon + float(np.finfo(number.wide).eps))
    if op == "prod":
        return epsilon * np.abs(value) + roundings * number.smallest
    size = np.sum([np.abs(part) for part in wide], axis=0)
    integral = np.all([part == np.rint(part) for part in wide], axis=0)
    exact = integral & (size <= 2.0**number.significand_bits)
    return np.where(exact, 0, epsilon * size + roundings * number.smallest)


def _divide_towards_zero(value: NumpyArray, divisor: int) -> NumpyArray:
    wide = value.astype(np.int64)
    below = (wide < 0) & (wide % divisor != 0)
    quotient: NumpyArray = wide // divisor + below
    return quotient.astype(value.dtype)


def _periods(expected: Expected) -> Iterator[tuple[int, int]]:
    """The first index and the length of each period of the expected values."""
    step = max(len(expected.values), 1)
    for offset in range(0, expected.length, step):
        yield expected.first + offset, min(step, expected.length - offset)


def _differs(number: Number, expected: Expected, found: NumpyArray) -> NumpyArray:
    values = expected.values[: len(found)]
    wrong: NumpyArray
    if expected.bound is None:
        bits = f"u{number.storage.itemsize}"
        wrong = values.view(bits) != found.view(bits)
    elif not number.is_floating:
        wrong = values != found
    else:
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(number.widen(found) - values) <= expected.bound[: len(found)])
    return wrong


def _describe(number: Number, expected: Expected, found: NumpyArray, at: int) -> tuple[str, str]:
    value = expected.values[at : at + 1]
    if expected.bound is None:
        value = number.widen(value)
    off = 0.0 if expected.bound is None else float(expected.bound[at])
    within = f" within {off:.3g}" if off else ""
    return f"{value[0]!s}{within}", str(number.widen(found[at : at + 1])[0])
