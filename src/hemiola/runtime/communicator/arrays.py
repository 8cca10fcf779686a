"""Arrays: the memory of NumPy arrays and of objects with the buffer protocol or DLPack, used without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from hemiola import _core
from hemiola.errors import CollectiveError
from hemiola.runtime.communicator.numbers import NUMBERS


class Array(Protocol):
    """What a communicator needs of an array: its element type and its size, which NumPy arrays and tensors have."""

    @property
    def dtype(self) -> Any: ...
    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class BorrowedArray:
    """The memory of an object that has DLPack and nothing else."""

    owner: object
    address: int
    nbytes: int
    dtype: str

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self.address


def as_array(thing: object) -> Array:
    """The memory of an object as an array, without a copy."""
    if isinstance(thing, np.ndarray) or all(hasattr(thing, name) for name in ("data_ptr", "nbytes", "dtype")):
        return cast(Array, thing)
    try:
        return np.asarray(memoryview(thing))  # type: ignore[arg-type]
    except TypeError:
        pass
    if hasattr(thing, "__dlpack__"):
        try:
            memory = _core.memory(thing, True)
        except (RuntimeError, BufferError):
            raise CollectiveError(
                f"the memory of {type(thing).__name__} cannot be used: it is read-only, or not the CPU's"
            ) from None
        if not memory.in_order:
            raise CollectiveError("an array must lie in memory in order (C-contiguous); this one does not")
        unknown = f"type {memory.type_code} of {memory.bits} bits"
        element = unknown if memory.type is None else memory.type.name.lower()
        return BorrowedArray(thing, memory.address, memory.num_bytes, element)
    raise CollectiveError(
        f"a collective moves NumPy arrays and what has the buffer protocol or DLPack, not {type(thing).__name__}"
    )


def element_of(array: Array) -> str:
    """The name of the element type, a key of ``NUMBERS``."""
    name = str(array.dtype).removeprefix("torch.")
    if name not in NUMBERS:
        raise CollectiveError(f"elements of type {name} are not supported; known are {', '.join(NUMBERS)}")
    return name


def address_of(array: Array, *, writable: bool) -> int:
    """The address of a contiguous array; CollectiveError for others, and for a read-only one that must be writable."""
    if isinstance(array, np.ndarray):
        if not array.flags.c_contiguous:
            raise CollectiveError("an array must lie in memory in order (C-contiguous); this one does not")
        if writable and not array.flags.writeable:
            raise CollectiveError("the array for the result is read-only")
        return int(array.ctypes.data)
    tensor: Any = array
    if not getattr(tensor, "is_cpu", True):
        raise CollectiveError(f"the tensor is on {tensor.device}, but this runtime moves memory of the CPU")
    if not isinstance(array, BorrowedArray) and not tensor.is_contiguous():
        raise CollectiveError("a tensor must lie in memory in order (contiguous); this one does not")
    return int(tensor.data_ptr())
