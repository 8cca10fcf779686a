"""Run on every rank: a rank is killed while others are in the middle of something."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hemiola.errors import PeerLostError
from integrations.torch import training
from integrations.torch.reducing import same


def in_calls_under_way(victim: int) -> tuple[list[int], list[int]]:
    """The rank that wait, future, functional collective and a later call name; and the world without it."""
    dist.barrier()
    if dist.get_rank() == victim:
        die_soon()
    tensor = torch.ones(1 << 20)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    named = [lost_rank(work.wait), lost_rank(future.wait), lost_rank(lambda: dist.all_reduce(tensor))]
    assert work.is_completed()
    assert not work.is_success()
    assert isinstance(work.exception(), PeerLostError)
    return named, world_of_survivors(victim)


def in_backward(victim: int) -> str:
    """What DDP raises."""
    network = DistributedDataParallel(training.model(), bucket_cap_mb=0.01)
    training.train(network)
    if dist.get_rank() == victim:
        die_soon()
    inputs, targets = training.batch(0, 0)
    try:
        torch.autograd.backward(nn.functional.mse_loss(network(inputs), targets))
    except (RuntimeError, PeerLostError) as error:
        return repr(error)
    return "nothing was raised"


def die_soon() -> None:
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


def lost_rank(call: Any) -> int:
    try:
        call()
    except PeerLostError as error:
        return error.rank
    return -1


def world_of_survivors(victim: int) -> list[int]:
    rank, size = dist.get_rank(), dist.get_world_size()
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    dist.init_process_group("hemiola", store=store, rank=rank - (rank > victim), world_size=size - 1)
    tensor = torch.ones(10)
    dist.all_reduce(tensor)
    same(tensor, torch.full((10,), float(size - 1)))
    gathered = [torch.zeros(1, dtype=torch.int64) for _ in range(size - 1)]
    dist.all_gather(gathered, torch.tensor([rank]))
    return [int(one) for one in gathered]
