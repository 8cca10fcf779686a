"""All-reduce over TCP on loopback, two ranks that pretend to be two hosts: Hemiola against Gloo.

    python benchmarks/tcp.py [--sizes 4KiB,64KiB,1MiB,16MiB,64MiB] [--rounds 15] [--ranks 2] [--json tcp.json]

Both run through torch.distributed in the same processes, in turn, block by block, so that both see the same
machine. A number is the time of one call, that of the slowest rank: the median of the blocks, with the quickest and
the slowest. The ratio is Gloo's median divided by Hemiola's: above 1, Hemiola is faster.
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
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

import hemiola.torch  # noqa: F401 (registers the backend)
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.launch import run_ranks
from hemiola.units import format_bytes, parse_bytes

SIZES = "4KiB,64KiB,1MiB,16MiB,64MiB"
BACKENDS = ("hemiola", "gloo")
BLOCK_SECONDS = 0.1
"""About how long one backend has its turn."""
ROW = "{:>8}  {:>11} {:>23}  {:>11} {:>23}  {:>6}"


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds per call at one size, a number for each block."""

    num_bytes: int
    hemiola: list[float]
    gloo: list[float]

    @property
    def ratio(self) -> float:
        """How many times faster Hemiola is."""
        return statistics.median(self.gloo) / statistics.median(self.hemiola)

    def __str__(self) -> str:
        cells = [cell for times in (self.hemiola, self.gloo) for cell in _cells(times)]
        return ROW.format(format_bytes(self.num_bytes), *cells, f"{self.ratio:.2f}")


def measure(
    rank: int, store: Store, num_ranks: int, sizes: list[int], rounds: int, folder: str
) -> dict[int, dict[str, list[float]]]:
    """One rank: the times of every block, by size and backend."""
    os.environ |= {"HEMIOLA_HOST_ID": f"host {rank}", "HEMIOLA_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=num_ranks)
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}

    found = {}
    for num_bytes in sizes:
        tensor = torch.zeros(num_bytes // 4)
        calls = {name: partial(dist.all_reduce, tensor, group=group) for name, group in groups.items()}
        blocks = {name: _agreed(_calls_in_a_block(call)) for name, call in calls.items()}
        times: dict[str, list[float]] = {name: [] for name in BACKENDS}
        for turn in range(rounds):
            for name in BACKENDS if turn % 2 else reversed(BACKENDS):
                dist.barrier()
                times[name].append(_time(calls[name], blocks[name]))
        found[num_bytes] = times
    dist.destroy_process_group()
    return found


def _agreed(number: int) -> int:
    """The number that rank 0 has."""
    shared = [number]
    dist.broadcast_object_list(shared, 0)
    return shared[0]


def _calls_in_a_block(call: Callable[[], object]) -> int:
    for _ in range(3):
        call()
    return max(1, min(5000, round(BLOCK_SECONDS / max(_time(call, 3), 1e-9))))


def _time(call: Callable[[], object], times: int) -> float:
    """Seconds per call, after one that is not counted."""
    call()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def _cells(times: list[float]) -> tuple[str, str]:
    return _written(statistics.median(times)), f"{_written(min(times))} ... {_written(max(times))}"


def _written(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main() -> int:
    """Measure, print and, if asked, write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default=SIZES, help="bytes of a rank, separated by commas")
    parser.add_argument("--rounds", type=int, default=15, help="blocks of each backend for a size")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    sizes = [parse_bytes(size) for size in options.sizes.split(",")]
    machine = {"processor": _processor(), "cores": os.cpu_count(), "kernel": platform.release()}
    print(
        f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, {options.ranks} ranks"
    )
    with tempfile.TemporaryDirectory() as folder:
        by_rank = run_ranks(
            options.ranks,
            measure,
            options.ranks,
            sizes,
            options.rounds,
            folder,
            kind="processes",
            timeout=900,
        )
    print(ROW.format("bytes", "Hemiola", "quickest ... slowest", "Gloo", "quickest ... slowest", "ratio"))
    rows = []
    for size in sizes:
        slowest = {
            name: [max(block) for block in zip(*(rank[size][name] for rank in by_rank), strict=True)]
            for name in BACKENDS
        }
        rows.append(Row(size, **slowest))
        print(rows[-1], flush=True)
    if options.json:
        written = {"machine": machine, "rows": [asdict(row) | {"ratio": row.ratio} for row in rows]}
        options.json.write_text(json.dumps(written, indent=2) + "\n")
    return 0


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


if __name__ == "__main__":
    sys.exit(main())
