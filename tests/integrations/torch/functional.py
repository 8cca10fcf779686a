"""Run on every rank: functional collectives, eager and compiled, and DTensor, which is built on them."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from integrations.torch.data import elements, reduced
from integrations.torch.reducing import same


def every_one() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    assert group is not None
    own = elements(rank, 8, torch.float32)
    everyone = torch.cat([elements(peer, 8, torch.float32) for peer in range(size)])
    same(functional.all_reduce(own, "sum", group) + 0, reduced(size, 8, torch.float32, "SUM"))
    same(functional.all_reduce(own, "avg", group) + 0, reduced(size, 8, torch.float32, "AVG"))
    same(functional.all_gather_tensor(own, 0, group) + 0, everyone)
    whole = elements(rank, 8 * size, torch.float32)
    expected = reduced(size, 8 * size, torch.float32, "SUM")[8 * rank :][:8]
    same(functional.reduce_scatter_tensor(whole, "sum", 0, group) + 0, expected)
    same(functional.broadcast(own, 1, group) + 0, elements(1, 8, torch.float32))
    turned = functional.all_to_all_single(whole, None, None, group) + 0
    same(turned, torch.cat([elements(peer, 8 * size, torch.float32)[8 * rank :][:8] for peer in range(size)]))
    moved = functional.permute_tensor(own, [(peer + 1) % size for peer in range(size)], group) + 0
    same(moved, elements((rank - 1) % size, 8, torch.float32))
    one, two = functional.all_reduce_coalesced([own, own * 2], "sum", group)
    same(one * 2, two + 0)
    parts = functional.all_gather_into_tensor_coalesced([own, own * 2], group)
    same(parts[1] + 0, everyone * 2)
    parts = functional.reduce_scatter_tensor_coalesced([whole, whole * 2], "sum", [0, 0], group)
    same(parts[1] + 0, expected * 2)


def compiled() -> None:
    """A graph with an all-reduce in its middle; the code that surrounds it is not of interest here."""
    group = dist.group.WORLD
    assert group is not None

    def mean(tensor: Tensor) -> Tensor:
        total: Tensor = functional.all_reduce(tensor * 2, "sum", group)
        return total / 2

    compiled_mean = torch.compile(mean, backend="aot_eager", fullgraph=True)
    same(compiled_mean(torch.ones(16)), torch.full((16,), float(dist.get_world_size())))


def redistributed() -> None:
    """Shards to replicas, partial sums to shards, shards of one dimension to another; uneven ones too."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    full = torch.arange(10.0 * 6).view(10, 6)
    for source in (Shard(0), Shard(1), Replicate()):
        tensor = distribute_tensor(full.clone(), mesh, [source])
        for target in (Replicate(), Shard(1), Shard(0)):
            same(tensor.redistribute(mesh, [target]).full_tensor(), full)
    partial = DTensor.from_local(full.clone(), mesh, [Partial()])
    for placement in (Replicate(), Shard(0), Shard(1)):
        same(partial.redistribute(mesh, [placement]).full_tensor(), full * dist.get_world_size())
    left = distribute_tensor(full.clone(), mesh, [Shard(1)])
    right = distribute_tensor(full.t().clone(), mesh, [Shard(0)])
    product = torch.matmul(left, right)
    assert isinstance(product, DTensor)
    torch.testing.assert_close(product.full_tensor(), full @ full.t())
