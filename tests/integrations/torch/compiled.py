"""Run on every rank: calls of torch.distributed inside functions that torch.compile compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from integrations.torch import training
from integrations.torch.reducing import same

Function = Callable[[Tensor], Tensor]
CALLS: dict[str, Function] = {}
"""Functions of a tensor with four elements per rank, each with one call and some arithmetic around it."""


def _listed(function: Function) -> Function:
    CALLS[function.__name__] = function
    return function


def _parts(tensor: Tensor) -> list[Tensor]:
    return [tensor + number for number in range(dist.get_world_size())]


def _empty_parts(tensor: Tensor) -> list[Tensor]:
    return [torch.empty_like(tensor) for _ in range(dist.get_world_size())]


@_listed
def all_reduce(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor)
    return tensor * 2


@_listed
def async_all_reduce(tensor: Tensor) -> Tensor:
    work: Any = dist.all_reduce(tensor, async_op=True)
    beside = torch.ones(3) * 2
    work.wait()
    return tensor + beside.sum()


@_listed
def broadcast(tensor: Tensor) -> Tensor:
    dist.broadcast(tensor, 1)
    return tensor * 2


@_listed
def reduce(tensor: Tensor) -> Tensor:
    dist.reduce(tensor, 0)
    return tensor * 2 if dist.get_rank() == 0 else torch.zeros(1)


@_listed
def all_gather(tensor: Tensor) -> Tensor:
    outputs = _empty_parts(tensor)
    dist.all_gather(outputs, tensor)
    return torch.stack(outputs).sum(0)


@_listed
def all_gather_single(tensor: Tensor) -> Tensor:
    output = torch.empty(dist.get_world_size() * tensor.numel())
    dist.all_gather_single(output, tensor)
    return output * 2


@_listed
def gather(tensor: Tensor) -> Tensor:
    outputs = _empty_parts(tensor) if dist.get_rank() == 0 else None
    dist.gather(tensor, outputs, 0)
    return tensor if outputs is None else torch.stack(outputs)


@_listed
def scatter(tensor: Tensor) -> Tensor:
    output = torch.empty_like(tensor)
    dist.scatter(output, _parts(tensor) if dist.get_rank() == 0 else None, 0)
    return output * 2


@_listed
def reduce_scatter(tensor: Tensor) -> Tensor:
    output = torch.empty_like(tensor)
    dist.reduce_scatter(output, _parts(tensor))
    return output * 2


@_listed
def reduce_scatter_single(tensor: Tensor) -> Tensor:
    output = torch.empty(tensor.numel() // dist.get_world_size())
    dist.reduce_scatter_single(output, tensor)
    return output * 2


@_listed
def all_to_all(tensor: Tensor) -> Tensor:
    outputs = _empty_parts(tensor)
    dist.all_to_all(outputs, _parts(tensor))
    return torch.stack(outputs)


@_listed
def all_to_all_single(tensor: Tensor) -> Tensor:
    output = torch.empty_like(tensor)
    dist.all_to_all_single(output, tensor)
    return output * 2


@_listed
def send_and_recv(tensor: Tensor) -> Tensor:
    """Every rank sends to the next one, the even ranks first."""
    rank, size = dist.get_rank(), dist.get_world_size()
    output = torch.empty_like(tensor)
    if rank % 2 == 0:
        dist.send(tensor, (rank + 1) % size)
        dist.recv(output, (rank - 1) % size)
    else:
        dist.recv(output, (rank - 1) % size)
        dist.send(tensor, (rank + 1) % size)
    return output * 2


@_listed
def batched_pairs(tensor: Tensor) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    output = torch.empty_like(tensor)
    pairs = [
        dist.P2POp(dist.isend, tensor, (rank + 1) % size),
        dist.P2POp(dist.irecv, output, (rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(pairs):
        work.wait()
    return output * 2


def as_without_compiler(name: str) -> None:
    """The compiled function gives what the function gives."""
    function = CALLS[name]

    def argument() -> Tensor:
        return torch.arange(4.0 * dist.get_world_size()) + dist.get_rank()

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager")
    expected = function(argument())
    for _ in range(2):
        same(compiled(argument()), expected)


def data_parallel() -> list[list[float]]:
    """The losses of DDP, and of DDP under the compiler."""
    torch._dynamo.reset()
    plain: nn.Module = DistributedDataParallel(training.model())
    compiled: Any = torch.compile(DistributedDataParallel(training.model()), backend="aot_eager")
    return [training.train(plain), training.train(compiled)]
