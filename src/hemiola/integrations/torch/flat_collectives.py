"""Reduce-scatter and all-gather of whole tensors under the names that the installed PyTorch has for them."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor

_REDUCE_SCATTER: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_ALL_GATHER: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
"""PyTorch 2.13 deprecates the older names."""


def reduce_scatter(shard: Tensor, whole: Tensor, group: Any, *, async_op: bool = False) -> Any:
    """The sum over all workers of the part of ``whole`` that is this worker's."""
    return _REDUCE_SCATTER(shard, whole, group=group, async_op=async_op)


def all_gather(whole: Tensor, shard: Tensor, group: Any, *, async_op: bool = False) -> Any:
    """The shards of all workers, one behind another."""
    return _ALL_GATHER(whole, shard, group=group, async_op=async_op)
