"""Run on every rank: models trained in parallel, with any backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS = 4

_Module: Any = nn.Module
"""Without its types: where PyTorch is not installed there are none."""


def model() -> nn.Sequential:
    torch.manual_seed(11)
    return nn.Sequential(
        nn.Linear(16, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 4)
    )


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(8, 16, generator=generator), torch.randn(8, 4, generator=generator)


def train(network: nn.Module) -> list[float]:
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS):
        inputs, targets = batch(step, dist.get_rank())
        loss = nn.functional.mse_loss(network(inputs), targets)
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def data_parallel() -> dict[str, list[float]]:
    """Losses by backend; small buckets, so that several all-reduces are in flight during backward."""
    return {name: train(wrapped(name)) for name in ("gloo", "hemiola")}


def wrapped(backend: str) -> nn.Module:
    group = dist.new_group(backend=backend)
    return DistributedDataParallel(model(), process_group=group, bucket_cap_mb=0.01)


def unused_parameters() -> list[float]:
    """Two branches of which each rank takes one; ranks must agree on who used what."""

    class Forked(_Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.left, self.right = nn.Linear(16, 4), nn.Linear(16, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            branch: Callable[[Tensor], Tensor] = self.left if dist.get_rank() % 2 else self.right
            return branch(inputs)

    network = DistributedDataParallel(Forked(), find_unused_parameters=True)
    train(network)
    return [parameter.sum().item() for parameter in network.parameters()]


def uneven_inputs() -> float:
    """Ranks with more batches than others, inside DDP's join."""
    network = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    with network.join():
        for step in range(2 + dist.get_rank()):
            inputs, targets = batch(step, dist.get_rank())
            torch.autograd.backward(nn.functional.mse_loss(network(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()
    return float(sum(parameter.abs().sum().item() for parameter in network.parameters()))


def fully_sharded() -> dict[str, list[float]]:
    """Losses of FSDP2, and of DDP over gloo, which it must equal."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    network = model()
    for layer in network:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    return {"hemiola": train(network), "gloo": train(wrapped("gloo"))}
