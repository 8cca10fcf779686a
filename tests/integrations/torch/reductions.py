"""Run on every rank: programs carried out on sub-groups, sums compared with those of the whole world."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from hemiola.collectives import CollectiveKind
from hemiola.integrations.torch.reduction_executor import ReductionExecutor
from hemiola.synthesis.program import parse_program
from hemiola.synthesis.search import programs_up_to
from hemiola.synthesis.table import table_of


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


def sums_in_place(text: str, factors: tuple[int, ...], groups: list[list[int]]) -> list[str]:
    """Which tensors did not get the sum over this rank's group: of lengths that the chunks divide, or oddly laid out."""
    rank = dist.get_rank()
    mine = next(group for group in groups if rank in group)
    executor = ReductionExecutor(parse_program(text, len(factors)), factors, groups)
    wrong = [name for name, layout in LAYOUTS.items() if not _is_summed(executor, layout, rank, mine)]
    executor.close()
    return wrong


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as it is": lambda whole: whole,
    "transposed": lambda whole: whole.T,
    "every second": lambda whole: whole[:, ::2],
    "a part": lambda whole: whole[1:3],
    "empty": lambda whole: whole[:0],
    "with gradients": lambda whole: whole.requires_grad_(),
    "conjugated": lambda whole: torch.complex(whole, whole + 1).conj(),
}
"""Views of a tensor of 4 x 16 numbers."""


def _is_summed(
    executor: ReductionExecutor, layout: Callable[[torch.Tensor], torch.Tensor], rank: int, mine: list[int]
) -> bool:
    tensor = layout(_numbers(rank))
    executor.all_reduce(tensor)
    expected = torch.stack([layout(_numbers(member)).detach().resolve_conj() for member in mine]).sum(dim=0)
    return torch.equal(tensor.detach().resolve_conj(), expected)


def _numbers(rank: int) -> torch.Tensor:
    return (torch.arange(64, dtype=torch.float64) * (rank + 1)).view(4, 16)


def other_requests(factors: tuple[int, ...]) -> list[str]:
    """Which requests beside all-reduce did not leave this rank with what they promise."""
    rank, size = dist.get_rank(), dist.get_world_size()
    wrong = []
    for request in (
        CollectiveKind.REDUCESCATTER,
        CollectiveKind.ALLGATHER,
        CollectiveKind.REDUCE,
        CollectiveKind.BROADCAST,
    ):
        for program in programs_up_to(table_of(len(factors), request), 2):
            executor = ReductionExecutor(program, factors, [list(range(size))], request=request)
            given = torch.stack([torch.arange(3.0) + 10 * chunk + 100 * rank for chunk in range(size)])
            every = [
                torch.stack([torch.arange(3.0) + 10 * chunk + 100 * one for chunk in range(size)])
                for one in range(size)
            ]
            total = torch.stack(every).sum(dim=0)
            executor.run(given)
            right = {
                CollectiveKind.REDUCESCATTER: torch.equal(given[rank], total[rank]),
                CollectiveKind.ALLGATHER: all(
                    torch.equal(given[one], every[one][one]) for one in range(size)
                ),
                CollectiveKind.REDUCE: rank != 0 or torch.equal(given, total),
                CollectiveKind.BROADCAST: torch.equal(given, every[0]),
            }[request]
            wrong += [] if right else [f"{request.value}: {program}"]
            executor.close()
    return wrong
