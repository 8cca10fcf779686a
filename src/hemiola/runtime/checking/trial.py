"""Trial: one collective on random data that every rank can compute for all other ranks without communication.

A *share* is the data that one rank contributes to another. Every buffer of every collective is a whole number of
shares, and a plan cuts each share into its chunks (the chunks of a custom collective are shares themselves). The
expected result of a collective is therefore that of the collective with one chunk per share, whatever the plan.

Inputs repeat after a prime number of elements, so that large inputs cost little to generate. No chunk of a usual length
is a multiple of that prime, so data that arrives in a wrong place differs from the data that belongs there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hemiola.collectives import Buffer, Collective, Meaning
from hemiola.runtime.communicator import arrays
from hemiola.runtime.communicator.numbers import NUMBERS, Number, NumpyArray

PERIOD = 262_139
"""The number of elements after which an input repeats: the largest prime below 2**18."""
POISON = 0xA5
"""Every byte of an output before the run, so that a byte that is never written is found."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """The input and the output of a rank; in place, one is a window of the other."""

    input: NumpyArray
    output: NumpyArray


@dataclass(frozen=True, slots=True)
class Trial:
    """A collective with its element type, its operator and its size."""

    collective: Collective
    share: int
    """The number of elements of one share."""
    element: str = "float32"
    """A key of ``NUMBERS``."""
    op: str = "sum"
    """One of ``OPERATORS``."""
    seed: int = 0

    @property
    def number(self) -> Number:
        """The element type."""
        return NUMBERS[self.element]

    def meaning(self) -> Meaning:
        """The meaning of the collective in shares; outputs are called outputs in place as well."""
        return in_shares(self.collective).with_place(in_place=False).meaning()

    def num_bytes(self) -> int:
        """The size of the buffers of all ranks together."""
        shares = sum(int(sizes.sum()) for sizes in in_shares(self.collective).stored_chunks())
        return shares * self.share * self.number.storage.itemsize

    def make_buffers(self, rank: int) -> Buffers:
        """The uninitialised buffers of one rank."""
        shares = in_shares(self.collective)
        alias = shares.alias()
        stored = [
            np.empty(int(sizes[rank]) * self.share, self.number.storage) for sizes in shares.stored_chunks()
        ]
        if alias is not None and alias.offset[rank] >= 0:
            first = int(alias.offset[rank]) * self.share
            named = shares.named_chunks()[alias.source]
            window = slice(first, first + int(named[rank]) * self.share)
            stored[alias.source] = stored[alias.target][window]
        return Buffers(stored[Buffer.INPUT], stored[Buffer.OUTPUT])

    def hand_over(self, buffers: Buffers) -> tuple[arrays.Array, arrays.Array]:
        """The input and the output as a communicator takes them.

        They are NumPy arrays, or for types that NumPy lacks their memory with the name of the type.
        """
        input_, output = (
            array if self.number.storage.name == self.element
            else arrays.BorrowedArray(array, int(array.ctypes.data), array.nbytes, self.element)
            for array in (buffers.input, buffers.output)
        )  # fmt: skip
        return input_, output

    def fill(self, rank: int, buffers: Buffers) -> None:
        """Fill the output with POISON and the input with the rank's random data."""
        buffers.output.view(np.uint8)[:] = POISON
        lay(self.pattern(rank), buffers.input)

    def pattern(self, rank: int) -> NumpyArray:
        """One period of a rank's input as stored values; it is shorter where no input is that long."""
        length = min(PERIOD, max(num_input_shares(self.collective) * self.share, 1))
        random = np.random.Generator(np.random.SFC64(np.random.SeedSequence((self.seed, rank))))
        return _draw(self.number, self.op, _num_summands(self.collective), length, random)


def in_shares(collective: Collective) -> Collective:
    """The same collective with one chunk per share; the chunks of a custom collective are shares already."""
    return collective if collective.custom is not None else replace(collective, chunks=1)


def num_input_shares(collective: Collective) -> int:
    """The number of shares of the largest input; at least one."""
    return max(int(in_shares(collective).named_chunks()[0].max()), 1)


def fit_share(collective: Collective, num_elements: int) -> int:
    """The smallest share with which the longest buffer holds at least ``num_elements``."""
    return -(-num_elements // collective.num_shares())


@lru_cache(maxsize=8)
def _num_summands(collective: Collective) -> int:
    """The largest number of contributions to one chunk; at least one."""
    meaning = in_shares(collective).with_place(in_place=False).meaning()
    sizes = (meaning.runs[:, 1] - meaning.runs[:, 0]).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])[meaning.set_first]
    return int(np.diff(ends).max(initial=1))


def lay(pattern: NumpyArray, target: NumpyArray) -> None:
    """Repeat the pattern over the target."""
    for first in range(0, len(target), len(pattern)):
        part = target[first : first + len(pattern)]
        part[:] = pattern[: len(part)]


def _draw(number: Number, op: str, summands: int, length: int, random: np.random.Generator) -> NumpyArray:
    if not number.is_floating:
        limits = np.iinfo(number.storage)
        whole = random.integers(limits.min, limits.max, length, number.storage, endpoint=True)
        # The products of even factors would soon be 0 in every bit, so all factors are odd.
        return whole | number.storage.type(1) if op == "prod" else whole
    draw = _draw_factors if op == "prod" else _draw_summands
    return number.narrow(draw(number, summands, length, random))


def _draw_factors(number: Number, summands: int, length: int, random: np.random.Generator) -> NumpyArray:
    """Numbers of either sign whose products stay between 2**-8 and 2**8, in any order."""
    magnitude: NumpyArray = np.exp2(random.uniform(-1, 1, length) * min(1.0, 8 / summands))
    magnitude *= random.choice([-1.0, 1.0], length)
    return magnitude


def _draw_summands(number: Number, summands: int, length: int, random: np.random.Generator) -> NumpyArray:
    """Numbers for sums. Every second one is a small integer, so that its sums are exact in any order. The others
    alternate between well conditioned (one sign, similar magnitudes) and ill conditioned (both signs, many magnitudes)."""
    assert number.significand_bits is not None
    most = max(1, 2**number.significand_bits // summands)
    numbers = random.integers(-most, most, length, endpoint=True).astype(np.float64)
    numbers[1::4] = random.uniform(1, 2, len(numbers[1::4]))
    wild = len(numbers[3::4])
    # The sum of all stays below 2**15, the range of float16.
    sizes = random.uniform(-10, min(10.0, 15 - np.log2(summands)), wild)
    numbers[3::4] = np.exp2(sizes) * random.choice([-1.0, 1.0], wild)
    return numbers
