"""Elements that every rank can compute for every other, and small enough that every type adds them exactly."""

from __future__ import annotations

import torch
from torch import Tensor


def elements(rank: int, length: int, dtype: torch.dtype) -> Tensor:
    """What rank ``rank`` contributes: 1 to 3, so that products of four stay below 128."""
    values = (torch.arange(length) * (rank + 1) + rank) % 3 + 1
    return (values % 2 == 0) if dtype == torch.bool else values.to(dtype)


def reduced(world_size: int, length: int, dtype: torch.dtype, op: str) -> Tensor:
    """What all ranks must get, computed the slow way."""
    all_ranks = torch.stack([elements(rank, length, dtype) for rank in range(world_size)])
    if dtype == torch.bool:
        return {"SUM": all_ranks.any(0), "MAX": all_ranks.any(0), "BOR": all_ranks.any(0)}.get(
            op, all_ranks.all(0)
        )
    wide = all_ranks.to(torch.complex128 if dtype.is_complex else torch.float64)
    if op in ("SUM", "AVG"):
        total = wide.sum(0)
        return (total / world_size if op == "AVG" else total).to(dtype)
    return {"PRODUCT": lambda: wide.prod(0), "MIN": lambda: wide.amin(0), "MAX": lambda: wide.amax(0)}[
        op
    ]().to(dtype)
