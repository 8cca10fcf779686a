"""How long a training step takes: a small transformer under DDP, with backend hemiola and with gloo.

    python benchmarks/ddp.py [--workers 2 3 4] [--rounds 8] [--steps 6] [--json ddp.json]

One process per worker, one thread each. Both backends train in the same processes, each its own copy of the
model on the same batches, and take turns in blocks of steps, so that both see the same machine; the median of
the blocks and the fastest and slowest are shown. The losses must agree up to the order of additions. The last
part trains the same model under FSDP2 with both backends and compares losses. Exits with 1 when hemiola is slower
or losses differ.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hemiola
import hemiola.torch

BACKENDS = ("gloo", "hemiola")
MAX_LOSS_DIFFERENCE = 1e-3
"""Relative; after a few steps of training, sums in another order differ in the last bits of a loss."""
FSDP_STEPS = 6


@dataclass(frozen=True, slots=True)
class Shape:
    """The transformer: about a million parameters, 4 MiB of gradients, 50 to 100 ms a step on one core."""

    vocabulary: int = 1000
    width: int = 128
    heads: int = 4
    layers: int = 4
    sequence: int = 64
    batch: int = 8


SHAPE = Shape()


_Module: Any = nn.Module
"""Without its types: where PyTorch is not installed there are none."""


class Transformer(_Module):  # type: ignore[misc]
    """The loss of predicting each token from those before it; no dropout, so that equal gradients give equal losses."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(SHAPE.vocabulary, SHAPE.width)
        self.places = nn.Parameter(torch.randn(SHAPE.sequence, SHAPE.width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                SHAPE.width, SHAPE.heads, 4 * SHAPE.width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(SHAPE.layers)
        )
        self.head = nn.Linear(SHAPE.width, SHAPE.vocabulary)
        self.mask = nn.Transformer.generate_square_subsequent_mask(SHAPE.sequence)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.tokens(tokens[:, :-1]) + self.places
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask, is_causal=True)
        scores: Tensor = self.head(hidden)
        return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


class Trainer:
    """A model and its optimizer; ``step`` takes the next batch of this worker."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.losses: list[float] = []

    def step(self) -> None:
        generator = torch.Generator().manual_seed(1000 * len(self.losses) + dist.get_rank())
        tokens = torch.randint(SHAPE.vocabulary, (SHAPE.batch, SHAPE.sequence + 1), generator=generator)
        loss: Tensor = self.model(tokens)
        torch.autograd.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())


def timed_block(trainer: Trainer, steps: int) -> float:
    """Seconds per step, from when all workers are ready until the last of them is done."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(steps):
        trainer.step()
    dist.barrier()
    return (time.perf_counter() - begin) / steps


def data_parallel(rounds: int, steps: int) -> dict[str, Any]:
    """Seconds per step of every block and losses, by backend; the first block of each warms up and is left out."""
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}
    trainers = {
        name: Trainer(DistributedDataParallel(Transformer(), process_group=group))
        for name, group in groups.items()
    }
    blocks: dict[str, list[float]] = {name: [] for name in BACKENDS}
    for turn in range(rounds + 1):
        for name in BACKENDS if turn % 2 else reversed(BACKENDS):
            seconds = timed_block(trainers[name], steps)
            if turn:
                blocks[name].append(seconds)
    return {"blocks": blocks, "losses": {name: trainer.losses for name, trainer in trainers.items()}}


def fully_sharded() -> dict[str, Any]:
    """Losses of FSDP2 by backend."""
    losses = {}
    for name in BACKENDS:
        mesh = DeviceMesh.from_group(dist.new_group(backend=name), "cpu")
        model = Transformer()
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        trainer = Trainer(model)
        for _ in range(FSDP_STEPS):
            trainer.step()
        losses[name] = trainer.losses
    return {"losses": losses}


def worker(rank: int, workers: int, store: str, task: Callable[..., Any], arguments: tuple[int, ...]) -> None:
    """One process: joins the world, runs the task, and as rank 0 leaves what it found beside the store."""
    torch.set_num_threads(1)
    dist.init_process_group("hemiola", store=FileStore(store, workers), rank=rank, world_size=workers)
    found = task(*arguments)
    if rank == 0:
        Path(f"{store}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def run(workers: int, task: Callable[..., Any], *arguments: int) -> dict[str, Any]:
    """What rank 0 of so many new processes found."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/store"
        processes = [
            get_context("spawn").Process(target=worker, args=(rank, workers, store, task, arguments))
            for rank in range(workers)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        found: dict[str, Any] = json.loads(Path(f"{store}.json").read_text())
    return found


def loss_difference(losses: dict[str, list[float]]) -> float:
    """The largest relative difference of two losses of one step."""
    pairs = zip(losses["gloo"], losses["hemiola"], strict=True)
    return max(abs(one - other) / abs(one) for one, other in pairs)


def row_of(workers: int, found: dict[str, Any]) -> dict[str, Any]:
    """Medians and spreads in milliseconds, the ratio of medians, and the difference of losses."""
    row: dict[str, Any] = {"workers": workers}
    for name in BACKENDS:
        seconds = found["blocks"][name]
        row[name] = {
            "median_ms": 1e3 * statistics.median(seconds),
            "fastest_ms": 1e3 * min(seconds),
            "slowest_ms": 1e3 * max(seconds),
        }
    row["ratio"] = row["hemiola"]["median_ms"] / row["gloo"]["median_ms"]
    row["loss_difference"] = loss_difference(found["losses"])
    return row


def cell(times: dict[str, float]) -> str:
    return f"{times['median_ms']:7.1f} ({times['fastest_ms']:.1f}-{times['slowest_ms']:.1f})"


def main() -> int:
    """Measure, print, and say whether hemiola is no slower with equal losses."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--rounds", type=int, default=8, help="blocks that count, per backend")
    parser.add_argument("--steps", type=int, default=6, help="training steps in a block")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(
        f"hemiola {hemiola.__version__}, PyTorch {torch.__version__}, Python {platform.python_version()}, {machine}"
    )
    print(f"DDP, {SHAPE}; milliseconds per step, median of {arguments.rounds} blocks (fastest-slowest)\n")
    print(f"{'workers':>7} {'gloo':>24} {'hemiola':>24} {'ratio':>6} {'loss difference':>16}")
    rows = []
    for workers in arguments.workers:
        row = row_of(workers, run(workers, data_parallel, arguments.rounds, arguments.steps))
        rows.append(row)
        print(
            f"{workers:7} {cell(row['gloo']):>24} {cell(row['hemiola']):>24} {row['ratio']:6.3f} "
            f"{row['loss_difference']:16.1e}",
            flush=True,
        )
    sharded = {
        workers: loss_difference(run(workers, fully_sharded)["losses"]) for workers in arguments.workers
    }
    for workers, difference in sharded.items():
        print(f"FSDP2 on {workers} workers: largest difference of losses {difference:.1e}")
    if arguments.json:
        report = {"machine": machine, "shape": asdict(SHAPE), "ddp": rows, "fsdp_loss_difference": sharded}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    slower = any(row["ratio"] > 1 for row in rows)
    apart = [row["loss_difference"] for row in rows] + list(sharded.values())
    return 1 if slower or max(apart) > MAX_LOSS_DIFFERENCE else 0


if __name__ == "__main__":
    sys.exit(main())
