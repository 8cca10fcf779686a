"""One training step of a small transformer on two processes, and the collectives that the torch profiler sees.

python training_steps.py fsdp2|tensor|sequence RANK STORE_FILE
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.profiler import ProfilerActivity, profile

NUM_RANKS, HIDDEN, LAYERS, HEADS, VOCAB, SEQ, BATCH = 2, 16, 3, 4, 31, 8, 2

INPUTS = {
    "_c10d_functional::all_reduce": ("allreduce", 0),
    "_c10d_functional::all_gather_into_tensor": ("allgather", 0),
    "_c10d_functional::reduce_scatter_tensor": ("reducescatter", 0),
    "c10d::_allgather_base_": ("allgather", 1),
    "c10d::_reduce_scatter_base_": ("reducescatter", 1),
}
"""The collective of an event, and which of its arguments is the input; torch's own names."""


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class Attention(nn.Module):
    """Query, key and value as one matrix, or as three, which tensor parallelism can cut."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        sizes = [3 * HIDDEN] if fused else [HIDDEN] * 3
        self.qkv = nn.ModuleList(linear(HIDDEN, size) for size in sizes)
        self.projection = linear(HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [part for one in self.qkv for part in one(x).chunk(3 // len(self.qkv), dim=-1)]
        heads = [part.unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2) for part in parts]
        found = nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        projected: torch.Tensor = self.projection(found)
        return projected


class Block(nn.Module):
    """Attention and MLP without biases, each after a norm."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention = Attention(fused)
        self.mlp = nn.Sequential(linear(HIDDEN, 4 * HIDDEN), nn.GELU(), linear(4 * HIDDEN, HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        y: torch.Tensor = self.mlp(self.mlp_norm(x))
        return x + y


class Transformer(nn.Module):
    """Embedding, layers, norm and head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.Sequential(*(Block(fused=True) for _ in range(LAYERS)))
        self.norm, self.head = nn.RMSNorm(HIDDEN), linear(HIDDEN, VOCAB)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.norm(self.layers(self.embedding(tokens))))
        return found


def fsdp2() -> tuple[nn.Module, torch.Tensor]:
    """Every layer and the whole."""
    model = Transformer()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    return model, torch.randint(VOCAB, (BATCH, SEQ))


def tensor_parallel(sequence: bool) -> tuple[nn.Module, torch.Tensor]:
    """The layers alone, each cut over both processes."""
    mesh = init_device_mesh("cpu", (NUM_RANKS,))
    layers = nn.Sequential(*(Block(fused=False) for _ in range(LAYERS)))
    outside = Shard(1) if sequence else Replicate()
    whole = PrepareModuleInput(input_layouts=outside, desired_input_layouts=Replicate())
    plan = {
        **({"attention_norm": SequenceParallel(), "mlp_norm": SequenceParallel()} if sequence else {}),
        "attention": whole, "attention.projection": RowwiseParallel(output_layouts=outside),
        **{f"attention.qkv.{part}": ColwiseParallel() for part in range(3)},
        "mlp": whole, "mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel(output_layouts=outside),
    }  # fmt: skip
    for layer in layers:
        parallelize_module(layer, mesh, plan)
    return layers, torch.randn(BATCH, SEQ // NUM_RANKS if sequence else SEQ, HIDDEN, requires_grad=True)


def main() -> None:
    """Print how often each collective ran with how many bytes of input, as JSON, on rank 0."""
    mode, rank, store = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=NUM_RANKS)
    model, data = fsdp2() if mode == "fsdp2" else tensor_parallel(mode == "sequence")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        model(data).sum().backward()
    found: Counter[tuple[str, int]] = Counter()
    for event in profiler.events():
        if event.name in INPUTS:
            kind, argument = INPUTS[event.name]
            found[kind, 4 * math.prod(event.input_shapes[argument])] += 1
    if rank == 0:
        print(json.dumps([[kind, size, times] for (kind, size), times in sorted(found.items())]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
