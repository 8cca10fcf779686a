"""Run on every rank: callbacks that make calls and wait for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from integrations.torch import training
from integrations.torch.reducing import same

NUM_CHAINS = 12


def waits_for_another_call() -> None:
    """A callback makes a call and waits for its future."""
    size = dist.get_world_size()
    first, second = torch.ones(3), torch.ones(5)
    work = dist.all_reduce(first, async_op=True)
    chained = work.get_future().then(
        lambda _: dist.all_reduce(second, async_op=True).get_future().wait()[0] * 2
    )
    same(chained.wait(), torch.full((5,), 2.0 * size))
    same(first, torch.full((3,), float(size)))


def nested(depth: int = 4) -> None:
    """The callback of a call that a callback made, and so on."""
    size = dist.get_world_size()

    def go_on(level: int) -> torch.Tensor:
        tensor = torch.full((level + 1,), float(level + 1))
        if level == depth:
            dist.all_reduce(tensor)
            return tensor
        future = dist.all_reduce(tensor, async_op=True).get_future()
        below: torch.Tensor = future.then(lambda _: go_on(level + 1)).wait()
        assert tensor[0] == size * (level + 1)
        return below

    same(go_on(0), torch.full((depth + 1,), float(size * (depth + 1))))


def chains_beside_calls() -> list[float]:
    """Chains of callbacks that make calls, while the program makes calls of its own; ranks go at different speeds.

    Every call has another length, so a call that meets another one than its own is noticed.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    futures = []
    for number in range(NUM_CHAINS):
        time.sleep(0.002 * ((rank + number) % size))
        tensor = torch.full((100 + number,), float(rank))
        future = dist.all_reduce(tensor, async_op=True).get_future()
        if rank == number % size:
            time.sleep(0.01)  # the call may have ended before the callback is added, or not
        futures.append(future.then(_reduces(200 + number)).then(_reduces(300 + number)))
        dist.all_reduce(torch.ones(400 + number))
    return [float(future.wait()) for future in futures]


def _reduces(length: int) -> Callable[[Any], float]:
    def callback(future: Any) -> float:
        future.wait()
        tensor = torch.full((length,), 1.0 + dist.get_rank())
        dist.all_reduce(tensor, async_op=True).get_future().wait()
        return float(tensor[-1])

    return callback


def waits_for_a_later_call() -> None:
    """A callback waits for a call that was made after its own, and for the callback of that call."""
    size = dist.get_world_size()
    one, other = torch.ones(2), torch.ones(4)
    later: list[Any] = []
    made = threading.Event()

    def wait(_: object) -> float:
        assert made.wait(20)
        return float(later[0].wait()[0][0]) + float(later[1].wait())

    first = dist.all_reduce(one, async_op=True).get_future().then(wait)
    future = dist.all_reduce(other, async_op=True).get_future()
    later.extend([future, future.then(lambda done: 10 * done.value()[0][0])])
    made.set()
    assert first.wait() == 11 * size


def on_two_groups() -> None:
    """A callback of one group makes calls of another one, which the program uses as well."""
    size = dist.get_world_size()
    other = dist.new_group(backend="hemiola")
    futures = []
    for number in range(6):
        future = dist.all_reduce(torch.ones(10 + number), async_op=True).get_future()
        futures.append(future.then(lambda _, length=20 + number: _total(length, other)))
        assert _total(30 + number, other) == (30 + number) * size
    assert [future.wait() for future in futures] == [(20 + number) * size for number in range(6)]
    dist.destroy_process_group(other)


def _total(length: int, group: dist.ProcessGroup) -> float:
    tensor = torch.ones(length)
    dist.all_reduce(tensor, group=group)
    return float(tensor.sum())


def raising_callback() -> str:
    """The error of a callback comes out of its future, and the group goes on."""

    def fails(_: object) -> None:
        raise ValueError("seven is not even")

    future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(fails)
    said = ""
    try:
        future.wait()
    except ValueError as error:
        said = str(error)
    waits_for_another_call()
    return said


def power_sgd() -> list[float]:
    """The losses of training with the hook that compresses gradients; several buckets, callbacks that make calls."""
    network = DistributedDataParallel(_wide_model(), bucket_cap_mb=0.05)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    network.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    losses = training.train(network)
    weights = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    everywhere = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, weights)
    for other in everywhere:
        same(other, weights)
    return losses


def _wide_model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(16, 128),
        nn.GELU(),
        nn.Linear(128, 128),
        nn.GELU(),
        nn.Linear(128, 128),
        nn.GELU(),
        nn.Linear(128, 4),
    )
