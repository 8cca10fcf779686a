"""Run on every rank: tensors that are not simply a piece of memory."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce as functional_all_reduce

from integrations.torch.data import elements, reduced
from integrations.torch.reducing import same


def strided() -> None:
    """Transposed, every second element, expanded input: copied in and out, and nothing beside them touched."""
    rank, size = dist.get_rank(), dist.get_world_size()
    expected = reduced(size, 24, torch.float32, "SUM").view(4, 6)
    for async_op in (False, True):
        around = torch.full((6, 8), -1.0)
        inner = around.t()[1:7:2, 1:5].t()
        inner.copy_(elements(rank, 12, torch.float32).view(4, 3))
        work = dist.all_reduce(inner, async_op=async_op)
        if work is not None:
            work.wait()
        same(inner.contiguous(), reduced(size, 12, torch.float32, "SUM").view(4, 3))
        assert int((around == -1).sum()) == around.numel() - inner.numel()

        tensor = elements(rank, 24, torch.float32).view(4, 6).t()
        gathered = torch.empty(4 * size, 6).t().contiguous().t()
        work = dist.all_gather_single(gathered, tensor.t(), async_op=async_op)
        if work is not None:
            work.wait()
        same(gathered, torch.cat([elements(peer, 24, torch.float32).view(4, 6) for peer in range(size)]))

        work = dist.all_reduce(tensor, async_op=async_op)
        if work is not None:
            work.wait()
        same(tensor.t(), expected)

        output = torch.zeros(2 * size)[::2]
        work = dist.all_to_all_single(output, torch.full((), float(rank)).expand(size), async_op=async_op)
        if work is not None:
            work.wait()
        same(output, torch.arange(size, dtype=torch.float32))


def special() -> None:
    """Numbers without a dimension, parameters, lazily negated and conjugated views, results not yet waited for."""
    rank, size = dist.get_rank(), dist.get_world_size()
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    assert scalar.item() == sum(range(size))

    parameter = torch.nn.Parameter(torch.full((3,), float(rank)))
    dist.broadcast(parameter, 2)
    same(parameter.detach(), torch.full((3,), 2.0))
    assert parameter.requires_grad
    assert parameter.is_leaf

    complex_numbers = torch.complex(torch.full((4,), float(rank)), torch.full((4,), 1.0))
    negated = complex_numbers.conj().imag
    assert negated.is_neg()
    dist.all_reduce(negated)
    same(negated.resolve_neg(), torch.full((4,), -float(size)))

    conjugated = torch.complex(torch.full((4,), float(rank)), torch.full((4,), 1.0)).conj()
    gathered = [torch.empty(4, dtype=torch.complex64) for _ in range(size)]
    group = dist.group.WORLD
    assert group is not None
    group.allgather([gathered], [conjugated]).wait()
    for peer, found in enumerate(gathered):
        same(found, torch.complex(torch.full((4,), float(peer)), torch.full((4,), -1.0)))

    pending = functional_all_reduce(torch.ones(5), "sum", group)
    dist.all_reduce(pending)
    same(pending + 0, torch.full((5,), float(size * size)))


def one_tensor_without_a_list() -> None:
    """As DDP's join passes it."""
    group = dist.group.WORLD
    assert group is not None
    tensor = torch.ones(4, dtype=torch.int32)
    group.allreduce(tensor).wait()
    same(tensor, torch.full((4,), dist.get_world_size(), dtype=torch.int32))
