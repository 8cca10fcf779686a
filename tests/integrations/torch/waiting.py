"""Run on every rank: calls that go on while the caller does something else."""

from __future__ import annotations

import time
from datetime import timedelta

import torch
import torch.distributed as dist

from integrations.torch.data import elements, reduced
from integrations.torch.reducing import same


def many_in_flight() -> None:
    """Twenty calls of four kinds, waited for from the last to the first."""
    rank, size = dist.get_rank(), dist.get_world_size()
    calls = []
    for round_ in range(5):
        length = 1000 * round_ + 3
        summed = elements(rank, length, torch.float32)
        gathered = torch.empty(length * size)
        shared = elements(rank, length, torch.int64)
        calls.append(
            (dist.all_reduce(summed, async_op=True), summed, reduced(size, length, torch.float32, "SUM"))
        )
        calls.append(
            (
                dist.all_gather_single(gathered, elements(rank, length, torch.float32), async_op=True),
                gathered,
                torch.cat([elements(peer, length, torch.float32) for peer in range(size)]),
            )
        )
        calls.append((dist.broadcast(shared, 1, async_op=True), shared, elements(1, length, torch.int64)))
        calls.append((dist.barrier(async_op=True), torch.empty(0), torch.empty(0)))
    for work, found, expected in reversed(calls):
        assert work is not None
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert work.exception() is None
        same(found, expected)


def polled() -> None:
    """`is_completed` alone must mean that the result is there, also where it is copied at the end."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = elements(rank, 600, torch.float32).view(20, 30).t()
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    same(tensor.t().reshape(-1), reduced(size, 600, torch.float32, "SUM"))


def futures() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = elements(rank, 600, torch.float32).view(20, 30).t()
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    same(doubled.wait().t().reshape(-1), reduced(size, 600, torch.float32, "SUM") * 2)
    assert work.result()[0] is tensor
    late = dist.all_reduce(torch.ones(2), async_op=True)
    late.wait()
    same(late.get_future().wait()[0], torch.full((2,), float(size)))


def coalesced_on_a_device() -> None:
    """What cannot be fused runs at once; the manager waits for all of it."""
    rank = dist.get_rank()
    tensors = [torch.full((50_000,), float(rank)), torch.full((3, 2), float(rank)).t()]
    with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for root, tensor in enumerate(tensors):
            dist.broadcast(tensor, root, async_op=True)
    manager.wait()
    for root, tensor in enumerate(tensors):
        assert (tensor == root).all()


def barrier_with_a_timeout() -> None:
    dist.barrier(timeout=timedelta(seconds=20))
    work = dist.barrier(async_op=True)
    assert work is not None
    assert work.wait(timedelta(seconds=20))
