"""``operator_name``: the operator of the runtime for a ``ReduceOp`` of PyTorch and an element type."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._distributed_c10d import ReduceOp

from hemiola.errors import CollectiveError

_NUMBERS: dict[Any, str] = {
    ReduceOp.SUM: "sum",
    ReduceOp.PRODUCT: "prod",
    ReduceOp.MIN: "min",
    ReduceOp.MAX: "max",
    ReduceOp.AVG: "avg",
}
_TRUTHS: dict[Any, str] = {
    ReduceOp.SUM: "max",
    ReduceOp.MAX: "max",
    ReduceOp.BOR: "max",
    ReduceOp.PRODUCT: "min",
    ReduceOp.MIN: "min",
    ReduceOp.BAND: "min",
}
"""A bool is a byte of 0 or 1, so "or" is the maximum and "and" is the minimum."""
_PAIRS: dict[Any, str] = {ReduceOp.SUM: "sum", ReduceOp.AVG: "avg"}
"""A complex number is moved as two real ones, which is correct for sums and averages only."""

_OPERATORS = {
    torch.float16: _NUMBERS,
    torch.bfloat16: _NUMBERS,
    torch.float32: _NUMBERS,
    torch.float64: _NUMBERS,
    torch.int8: _NUMBERS,
    torch.uint8: _NUMBERS,
    torch.int32: _NUMBERS,
    torch.int64: _NUMBERS,
    torch.bool: _TRUTHS,
    torch.complex64: _PAIRS,
    torch.complex128: _PAIRS,
}
_BY_HASH = {
    (hash(ReduceOp(kind)), dtype): name for dtype, kinds in _OPERATORS.items() for kind, name in kinds.items()
}
"""The names by the hash of a ReduceOp and the element type. The hash is cheaper to get than the kind, and differs between
kinds."""
assert len(_BY_HASH) == sum(map(len, _OPERATORS.values()))


def operator_name(operator: Any, dtype: torch.dtype, call: str) -> str:
    """The operator of the runtime for a ReduceOp, which is typed as Any because PyTorch's types lack its ``op``."""
    name = _BY_HASH.get((hash(operator), dtype))
    if name is None:
        raise CollectiveError(_refusal(operator.op, dtype, call))
    return name


def _refusal(kind: Any, dtype: torch.dtype, call: str) -> str:
    if dtype not in _OPERATORS:
        known = ", ".join(_short(known) for known in _OPERATORS)
        return (
            f"{call} got elements of type {_short(dtype)}, which backend hemiola does not reduce; convert the "
            f"tensor to one of {known}"
        )
    known = ", ".join(operator.name for operator in _OPERATORS[dtype])
    way_out = "; scale the tensor first and use SUM" if kind == ReduceOp.PREMUL_SUM else ""
    return (
        f"{call} got operator {kind.name}, which backend hemiola does not have for {_short(dtype)}; "
        f"it has {known}{way_out}"
    )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
