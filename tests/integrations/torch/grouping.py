"""Run on every rank: groups of some of the ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from integrations.torch.reducing import same


def subsets() -> None:
    """Overlapping groups, one of a single rank, one in an order of its own; used at the same time."""
    rank = dist.get_rank()
    members = [[0, 1], [2, 3], [0, 2, 3], [1], [0, 1, 2, 3]]
    groups = [dist.new_group(ranks) for ranks in members]
    works = []
    for ranks, group in zip(members, groups, strict=True):
        if rank in ranks:
            tensor = torch.full((1000,), float(rank + 1))
            works.append(
                (dist.all_reduce(tensor, group=group, async_op=True), tensor, sum(ranks) + len(ranks))
            )
    for work, tensor, expected in works:
        work.wait()
        same(tensor, torch.full((1000,), float(expected)))
    shared = torch.tensor([rank])
    if rank in members[2]:
        dist.broadcast(shared, src=3, group=groups[2])
        assert shared.item() == 3
        assert dist.get_group_rank(groups[2], rank) == [0, 2, 3].index(rank)
    for ranks, group in zip(members, groups, strict=True):
        if rank in ranks:
            dist.destroy_process_group(group)
    backwards = dist.new_group([3, 1, 0], sort_ranks=False)
    if rank in (3, 1, 0):
        gathered = torch.empty(3, dtype=torch.int64)
        dist.all_gather_single(gathered, torch.tensor([rank]), group=backwards)
        same(gathered, torch.tensor([3, 1, 0]))
        dist.destroy_process_group(backwards)


def beside_gloo() -> None:
    group = dist.new_group(backend="gloo")
    tensor, other = torch.ones(3), torch.ones(3)
    dist.all_reduce(tensor, group=group)
    dist.all_reduce(other)
    same(tensor, other)
    dist.destroy_process_group(group)


def mesh() -> None:
    """A mesh takes the backend of the world; every axis is a group of its own."""
    rank = dist.get_rank()
    square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
    for name, expected in (("row", rank % 2 * 2 + 2), ("column", rank // 2 * 4 + 1)):
        group = square.get_group(name)
        assert dist.get_backend(group) == "hemiola"
        tensor = torch.tensor([rank])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == expected
    line = init_device_mesh("cpu", (4,))
    assert line.get_group() is dist.group.WORLD


def made_again() -> None:
    """The world ends and begins again in the same store, as after a change of phase."""
    group = dist.group.WORLD
    assert group is not None
    rank, size, store = dist.get_rank(), dist.get_world_size(), dist.distributed_c10d._get_default_store()
    for _ in range(2):
        dist.destroy_process_group()
        dist.init_process_group("hemiola", store=store, rank=rank, world_size=size)
        tensor = torch.ones(10)
        dist.all_reduce(tensor)
        same(tensor, torch.full((10,), float(size)))


def about_itself() -> tuple[str, str, str, int, int]:
    group = dist.group.WORLD
    assert group is not None
    assert dist.distributed_c10d._get_object_coll_device(group) == "cpu"
    assert dist.get_process_group_ranks(group) == [0, 1, 2, 3]
    return dist.get_backend(), group.name(), group.group_desc, group.rank(), group.size()
