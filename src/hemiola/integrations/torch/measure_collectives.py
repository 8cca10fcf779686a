"""What averaging gradients costs on the running process group: seconds of messages by bytes, and what they take from computation.

    torchrun ... -m hemiola.integrations.torch.measure_collectives FILE [BACKEND]

writes a file for ``hemiola fuse --collectives FILE``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from hemiola.integrations.torch.buckets import Workers
from hemiola.integrations.torch.flat_collectives import all_gather, reduce_scatter
from hemiola.integrations.torch.register import BACKEND, register

SIZES = tuple(1 << power for power in range(12, 27, 2))
"""4 KiB to 64 MiB."""
ROUNDS = 5
CONTENTION_BYTES = 8 << 20
MATRIX = 192
"""Of the products that stand for computation; three of them fit the caches of one core."""


@dataclass(frozen=True)
class MeasuredCollectives:
    """Medians over rounds of the slowest worker; the same on every worker."""

    allreduce: dict[int, float]
    """Seconds by the bytes of the whole bucket, for this and the next two."""
    reduce_scatter: dict[int, float]
    all_gather: dict[int, float]
    num_workers: int
    contention_seconds_per_byte: float
    """By so much computation beside an all-reduce takes longer for every byte of it."""
    copy_seconds_per_byte: float
    spread: float
    """The largest distance of the middle half of the rounds, of all sizes, as a share of their median."""


def measure_collectives(
    group: Any = None, largest_bytes: int = SIZES[-1], rounds: int = ROUNDS
) -> MeasuredCollectives:
    """Called by every worker of a group at once; sizes up to the largest bucket that a plan may have."""
    workers = Workers(group)
    sizes = [size for size in SIZES if size < largest_bytes] + [max(largest_bytes, SIZES[0])]
    timed = {size: _Messages(size, workers) for size in sizes}
    seen: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds + 1):
        for size, messages in timed.items():
            for name, action in messages.actions().items():
                seen.setdefault((name, size), []).append(_timed(action, workers))
    found = {key: median(values[1:]) for key, values in seen.items()}
    spreads = [_spread(values[1:]) for values in seen.values()]

    def by_size(name: str) -> dict[int, float]:
        return {size: found[name, size] for size in sizes}

    return MeasuredCollectives(
        by_size("allreduce"),
        by_size("reduce_scatter"),
        by_size("all_gather"),
        workers.size,
        _contention(workers, min(CONTENTION_BYTES, sizes[-1]), rounds),
        _largest(_copy_seconds(sizes[-1], rounds) / sizes[-1], workers),
        max(spreads),
    )


def _spread(values: Sequence[float]) -> float:
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return (ordered[-1 - quarter] - ordered[quarter]) / median(ordered)


class _Messages:
    """Buffers of one size."""

    def __init__(self, num_bytes: int, workers: Workers) -> None:
        shard = -(-num_bytes // 4 // workers.size)
        self._whole, self._shard, self._workers = (
            torch.zeros(shard * workers.size),
            torch.zeros(shard),
            workers,
        )

    def actions(self) -> dict[str, Callable[[], object]]:
        group = self._workers.group
        return {
            "allreduce": lambda: dist.all_reduce(self._whole, group=group),
            "reduce_scatter": lambda: reduce_scatter(self._shard, self._whole, group),
            "all_gather": lambda: all_gather(self._whole, self._shard, group),
        }


def _timed(action: Callable[[], object], workers: Workers) -> float:
    """Seconds of the slowest worker, from a moment at which all were ready."""
    dist.barrier(group=workers.group)
    begin = time.perf_counter()
    action()
    return _largest(time.perf_counter() - begin, workers)


def _largest(value: float, workers: Workers) -> float:
    found = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(found, op=dist.ReduceOp.MAX, group=workers.group)
    return float(found)


def _contention(workers: Workers, num_bytes: int, rounds: int) -> float:
    """Products of matrices alone and beside an all-reduce, in turns; they take about as long as it does."""
    whole, matrix = torch.zeros(num_bytes // 4), torch.rand(MATRIX, MATRIX)
    wire = median(_timed(lambda: dist.all_reduce(whole, group=workers.group), workers) for _ in range(3))
    one = median(_seconds(lambda: _multiply(matrix, 10)) for _ in range(5)) / 10
    count = int(_largest(max(1.0, wire / one), workers))
    lost = []
    for _ in range(rounds):
        alone = _seconds(lambda: _multiply(matrix, count))
        dist.barrier(group=workers.group)
        work = dist.all_reduce(whole, group=workers.group, async_op=True)
        beside = _seconds(lambda: _multiply(matrix, count))
        work.wait()
        lost.append(_largest(max(0.0, beside - alone), workers))
    return median(lost) / num_bytes


def _multiply(matrix: Tensor, count: int) -> None:
    for _ in range(count):
        torch.mm(matrix, matrix)


def _copy_seconds(num_bytes: int, rounds: int) -> float:
    one, other = torch.rand(num_bytes // 4), torch.zeros(num_bytes // 4)
    return median(_seconds(lambda: torch.mul(one, 0.5, out=other)) for _ in range(rounds))


def _seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main() -> None:
    """One worker: joins the job that torchrun or `hemiola lab exec` started; rank 0 writes the file."""
    path, backend = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else BACKEND
    register()
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    found = measure_collectives()
    if dist.get_rank() == 0:
        path.write_text(json.dumps(asdict(found), indent=1) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
