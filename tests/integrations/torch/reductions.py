"""Run on every rank: programs carried out on sub-groups, sums compared with those of the whole world."""

from __future__ import annotations

import torch
import torch.distributed as dist

from hemiola.integrations.torch.reduction_executor import ReductionExecutor
from hemiola.synthesis.program import parse_program


def sums(texts: list[str], factors: tuple[int, ...], groups: list[list[int]], backend: str | None) -> int:
    """How many programs gave this rank the sum over its group, of a length that the chunks do not divide."""
    rank = dist.get_rank()
    mine = next(group for group in groups if rank in group)
    right = 0
    for text in texts:
        executor = ReductionExecutor(parse_program(text, len(factors)), factors, groups, backend=backend)
        tensor = contribution(rank)
        executor.all_reduce(tensor)
        expected = torch.stack([contribution(member) for member in mine]).sum(dim=0)
        right += torch.equal(tensor, expected)
        executor.close()
    return right


def contribution(rank: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(-100, 100, (3, 7), generator=generator).to(torch.float64)
