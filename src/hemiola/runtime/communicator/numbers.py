"""Numbers: how each element type lies in a NumPy array, and how well it adds.

NumPy has no bfloat16, so its values lie in arrays of uint16, bit by bit; ``widen`` and ``narrow`` go between
what lies in memory and a type in which sums of it are as good as exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

NumpyArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Number:
    """An element type: what lies in memory, and what its arithmetic promises."""

    name: str
    storage: np.dtype[Any]
    """The NumPy type of the same size."""
    wide: np.dtype[Any]
    """The type that expected results are computed in; for integers their own, since they wrap."""
    significand_bits: int | None = None
    """None for integers, which are exact."""
    smallest: float = 0.0
    """The distance of neighbours near zero."""

    @property
    def is_floating(self) -> bool:
        """Whether arithmetic rounds."""
        return self.significand_bits is not None

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger number; 0 for integers."""
        return 0.0 if self.significand_bits is None else 2.0 ** (1 - self.significand_bits)

    def widen(self, stored: NumpyArray) -> NumpyArray:
        """What lies in memory, as numbers to compute with."""
        if self.name == "bfloat16":
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(invalid="ignore"):  # a signalling NaN is a wrong result, not an error here
            return stored.astype(self.wide)

    def narrow(self, numbers: NumpyArray) -> NumpyArray:
        """Numbers as they lie in memory, rounded to nearest, ties to even."""
        if self.name == "bfloat16":
            return _round_to_bfloat16(numbers.astype(np.float32))
        return numbers.astype(self.storage)


def _round_to_bfloat16(numbers: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    bits = numbers.view(np.uint32)
    odd = (bits >> 16) & 1
    rounded = ((bits + np.uint32(0x7FFF) + odd) >> 16).astype(np.uint16)
    return np.where(np.isnan(numbers), np.uint16(0x7FC0), rounded)


def _integer(name: str) -> Number:
    return Number(name, np.dtype(name), np.dtype(name))


NUMBERS: Mapping[str, Number] = {
    number.name: number
    for number in (
        Number("float16", np.dtype(np.float16), np.dtype(np.float64), 11, 2.0**-24),
        Number("bfloat16", np.dtype(np.uint16), np.dtype(np.float64), 8, 2.0**-133),
        Number("float32", np.dtype(np.float32), np.dtype(np.float64), 24, 2.0**-149),
        Number("float64", np.dtype(np.float64), np.dtype(np.longdouble), 53, 2.0**-1074),
        *map(_integer, ("int8", "uint8", "int32", "int64")),
    )
}
"""Every element type that moves and adds."""

OPERATORS = ("sum", "prod", "min", "max", "avg")
"""How contributions become one; avg is their sum divided by the number of ranks."""
