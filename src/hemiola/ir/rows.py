"""Tables as bytes: how structured arrays cross into C++ and back without a copy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def as_bytes(rows: npt.NDArray[np.void]) -> npt.NDArray[np.uint8]:
    """The memory of a table."""
    return np.ascontiguousarray(rows).view(np.uint8).reshape(-1)


def from_bytes(data: npt.NDArray[np.uint8], row: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The table that lies in ``data``."""
    return data.view(row)
