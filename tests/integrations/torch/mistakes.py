"""Run on every rank: calls that must be refused with a sentence, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from hemiola.errors import HemiolaError


def refusals() -> dict[str, str]:
    """What each mistake is answered with."""
    group: Any = dist.group.WORLD
    size = dist.get_world_size()
    tries: dict[str, Callable[[], object]] = {
        "int16": lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16)),
        "bxor": lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), dist.ReduceOp.BXOR),
        "bool avg": lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG),
        "complex max": lambda: dist.reduce(torch.ones(2, dtype=torch.complex64), 0, dist.ReduceOp.MAX),
        "premul": lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.PREMUL_SUM(0.5)),
        "device": lambda: dist.all_reduce(torch.ones(2, device="meta")),
        "sparse": lambda: dist.all_reduce(torch.eye(2).to_sparse()),
        "any source": lambda: dist.recv(torch.ones(2)),
        "monitored": lambda: group.monitored_barrier(),
        "too small": lambda: dist.all_gather_single(torch.ones(size), torch.ones(2)),
        "too large": lambda: dist.reduce_scatter_single(torch.ones(2), torch.ones(2 * size + 1)),
        "types": lambda: dist.all_gather_single(torch.ones(2 * size), torch.ones(2, dtype=torch.int32)),
        "list": lambda: dist.all_gather([torch.ones(2)] * (size - 1), torch.ones(2)),
        "splits": lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size), [1] * size, [2] * size),
        "rows": lambda: dist.all_to_all_single(torch.ones(size + 1), torch.ones(size + 1)),
        "counts": lambda: group.all_gather_single_coalesced([torch.ones(size)], [torch.ones(1)] * 2),
        "set timeout": lambda: group.set_timeout(timedelta(seconds=5)),
        "options": lambda: dist.new_group(pg_options=object()),
    }
    return {name: answer(attempt) for name, attempt in tries.items()}


def answer(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except HemiolaError as error:
        return str(error)
    return "nothing was said"
