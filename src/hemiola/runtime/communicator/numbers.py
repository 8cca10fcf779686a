"""Numbers: how each element type is stored in a NumPy array, and how precise its arithmetic is.

NumPy has no bfloat16, so arrays of uint16 hold the bits of its values. ``widen`` converts stored values to a type in
which their sums are practically exact, and ``narrow`` converts them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hemiola._core import ElementType, Operator

NumpyArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Number:
    """An element type: how its values are stored, and how precise its arithmetic is."""

    type: ElementType
    """As the core knows it."""
    storage: np.dtype[Any]
    """The NumPy type that holds the bits of a value."""
    wide: np.dtype[Any]
    """The type in which expected results are computed; integers use their own type, because they wrap."""
    significand_bits: int | None = None
    """None for integers, which are exact."""
    smallest: float = 0.0
    """The distance between neighbouring values near zero."""

    @property
    def name(self) -> str:
        """As NumPy and PyTorch name it."""
        return self.type.name.lower()

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
        if self.type is ElementType.BFLOAT16:
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(invalid="ignore"):  # a signalling NaN is a wrong result and not an error
            return stored.astype(self.wide)

    def narrow(self, numbers: NumpyArray) -> NumpyArray:
        """Numbers as they lie in memory, rounded to nearest, ties to even."""
        if self.type is ElementType.BFLOAT16:
            return _round_to_bfloat16(numbers.astype(np.float32))
        return numbers.astype(self.storage)


def _round_to_bfloat16(numbers: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    bits = numbers.view(np.uint32)
    odd = (bits >> 16) & 1
    rounded = ((bits + np.uint32(0x7FFF) + odd) >> 16).astype(np.uint16)
    return np.where(np.isnan(numbers), np.uint16(0x7FC0), rounded)


def _integer(kind: ElementType) -> Number:
    storage = np.dtype(kind.name.lower())
    return Number(kind, storage, storage)


NUMBERS: Mapping[str, Number] = {
    number.name: number
    for number in (
        Number(ElementType.FLOAT16, np.dtype(np.float16), np.dtype(np.float64), 11, 2.0**-24),
        Number(ElementType.BFLOAT16, np.dtype(np.uint16), np.dtype(np.float64), 8, 2.0**-133),
        Number(ElementType.FLOAT32, np.dtype(np.float32), np.dtype(np.float64), 24, 2.0**-149),
        Number(ElementType.FLOAT64, np.dtype(np.float64), np.dtype(np.longdouble), 53, 2.0**-1074),
        *map(_integer, (ElementType.INT8, ElementType.UINT8, ElementType.INT32, ElementType.INT64)),
    )
}
"""Every element type that the runtime supports, in the order of the C++ core's numbers."""

CORE_OPERATORS: Mapping[str, Operator] = {
    **{operator.name.lower(): operator for operator in Operator},
    "avg": Operator.SUM,
}
"""How the core adds up what an operator joins; avg is a sum that is divided by the number of ranks at the end."""

OPERATORS = tuple(CORE_OPERATORS)
"""How contributions become one."""
