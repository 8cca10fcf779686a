"""Run on every rank: collectives that compute."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from integrations.torch.data import elements, reduced

LENGTHS = (0, 1, 7, 4099)


def all_reduce(dtype: torch.dtype, op: str) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for length in LENGTHS:
        for async_op in (False, True):
            tensor = elements(rank, length, dtype)
            work = dist.all_reduce(tensor, getattr(dist.ReduceOp, op), async_op=async_op)
            if work is not None:
                assert work.wait()
            same(tensor, reduced(size, length, dtype, op))


def reduce_to_every_root(dtype: torch.dtype, op: str) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in range(size):
        tensor = elements(rank, 131, dtype)
        dist.reduce(tensor, root, getattr(dist.ReduceOp, op))
        if rank == root:
            same(tensor, reduced(size, 131, dtype, op))


def reduce_scatter(dtype: torch.dtype, op: str) -> None:
    """From a tensor, from a list of separate tensors, from neighbours in memory."""
    rank, size = dist.get_rank(), dist.get_world_size()
    operator = getattr(dist.ReduceOp, op)
    for length in LENGTHS:
        whole = elements(rank, length * size, dtype)
        expected = reduced(size, length * size, dtype, op)[rank * length : (rank + 1) * length]
        for parts in (None, list(whole.chunk(size)), [part.clone() for part in whole.chunk(size)]):
            output = torch.empty(length, dtype=dtype)
            if parts is None:
                dist.reduce_scatter_single(output, whole, operator)
            elif length:
                dist.reduce_scatter(output, parts, operator)
            else:
                dist.reduce_scatter(output, [whole] * size, operator)
            same(output, expected)


def reduce_scatter_of_different_sizes() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    lengths = [3 * part for part in range(size)]
    inputs = [elements(rank, length, torch.int32) for length in lengths]
    output = torch.empty(lengths[rank], dtype=torch.int32)
    dist.reduce_scatter(output, inputs)
    same(output, reduced(size, lengths[rank], torch.int32, "SUM"))
    for length, tensor in zip(lengths, inputs, strict=True):
        same(tensor, elements(rank, length, torch.int32))


def coalesced() -> None:
    """Small tensors, large ones and empty ones in one list; all-reduce, reduce-scatter."""
    rank, size = dist.get_rank(), dist.get_world_size()
    lengths = (5, 0, 3, 20_000, 7, 30_000, 1)
    tensors = [elements(rank, length, torch.float32) for length in lengths]
    with dist.distributed_c10d._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor, length in zip(tensors, lengths, strict=True):
        same(tensor, reduced(size, length, torch.float32, "SUM"))

    outputs = [torch.empty(length) for length in lengths]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for output, length in zip(outputs, lengths, strict=True):
            dist.reduce_scatter_single(output, elements(rank, length * size, torch.float32))
    manager.wait()
    for output, length in zip(outputs, lengths, strict=True):
        same(output, reduced(size, length * size, torch.float32, "SUM")[rank * length :][:length])


def random_sum(dtype: torch.dtype, length: int) -> tuple[bytes, float]:
    """The bytes of a sum of random numbers, and how far they are from the sum in double precision."""
    size = dist.get_world_size()
    numbers = [torch.randn(length, generator=torch.Generator().manual_seed(7 + rank)) for rank in range(size)]
    tensor = numbers[dist.get_rank()].to(dtype)
    exact = torch.stack([part.to(dtype).double() for part in numbers]).sum(0)
    dist.all_reduce(tensor)
    return tensor.view(torch.uint8).numpy().tobytes(), float((tensor.double() - exact).abs().max())


def same(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
