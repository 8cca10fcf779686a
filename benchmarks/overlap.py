"""Communication beside computation, on the lab's two distant hosts: backend hemiola against gloo.

    python benchmarks/overlap.py [--quick] [--rates 80,125,500] [--buckets 1,4,25] [--rounds 5] [--out overlap.jsonl]

Two workers with one core each, on the lab's shape wan-2x1 with 1 ms from host to host; it takes root (network namespaces).
Both backends run in the same processes, in turns, on the same wire; numbers are medians of the rounds, with the fastest and
the slowest. Three things are measured, the first two at the last of the rates:

- GIL: four asynchronous all-reduces are started, then compiled code holds Python's lock for longer than they need. What is
  left to wait afterwards?
- beside: an all-reduce of 16 MiB while the same core multiplies matrices, against one beside an idle core; and a fixed
  number of multiplications beside all-reduces, against the same without any.
- DDP: the step of a transformer of 12 million parameters, by size of buckets.

With ``--out`` results are appended as they come, and what the file has is not measured again. ``--quick`` takes about a
minute. Exits with 1 when a bound of BOUNDS is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import hemiola.torch  # noqa: F401 (registers the backend)
from hemiola.lab.execute import execute
from hemiola.lab.lab import Starter
from hemiola.lab.shape import Shape
from hemiola.report.machine import describe_machine
from hemiola.topology.shapes import shape_text

BACKENDS = ("hemiola", "gloo")
SHAPE = "wan-2x1"
DELAY_SECONDS = 1e-3
NUM_BYTES = 16 << 20
NUM_CALLS = 4
HELD_SECONDS = 0.45
MATRIX = 256
"""Of this size a multiplication takes about a millisecond, so that the end of a call is seen soon."""
BOUNDS = {"gil left": 0.02, "beside / idle": 1.10}
"""The most seconds left to wait, and the most that a computation beside it may slow an all-reduce down."""

Times = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """About 12 million parameters, 46 MiB of gradients."""

    vocabulary: int = 2000
    width: int = 384
    heads: int = 6
    layers: int = 6
    sequence: int = 64
    batch: int = 4


SIZES = TransformerShape()

_Module: Any = nn.Module
"""Without its types: where PyTorch is not installed there are none."""


class Transformer(_Module):  # type: ignore[misc]
    """The loss of predicting each token from those before it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(SIZES.vocabulary, SIZES.width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                SIZES.width, SIZES.heads, 4 * SIZES.width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(SIZES.layers)
        )
        self.head = nn.Linear(SIZES.width, SIZES.vocabulary)
        self.mask = nn.Transformer.generate_square_subsequent_mask(SIZES.sequence)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.tokens(tokens[:, :-1])
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask, is_causal=True)
        scores: Tensor = self.head(hidden)
        return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


# What a worker does.


def turns(rounds: int) -> Iterator[tuple[str, bool]]:
    """Backends in turns, and whether the measurement counts: that of the first round does not."""
    for turn in range(rounds + 1):
        for name in BACKENDS if turn % 2 else reversed(BACKENDS):
            yield name, turn > 0


def timed(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def slowest(seconds: float) -> float:
    """That of the slowest worker."""
    shared = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(shared, dist.ReduceOp.MAX)
    return float(shared)


def holding_power() -> int:
    """An exponent: a power of 3 that takes HELD_SECONDS. One operation of Python's integers never lets go of its lock."""
    exponent = 100_000
    while timed(partial(pow, 3, exponent)) < HELD_SECONDS:
        exponent = exponent * 5 // 4
    return exponent


def left_after_the_lock(groups: dict[str, dist.ProcessGroup], rounds: int) -> Times:
    """Seconds left to wait for the calls after compiled code has held Python's lock."""
    tensors = [torch.zeros(NUM_BYTES // 4 // NUM_CALLS) for _ in range(NUM_CALLS)]
    exponent = holding_power()
    found: Times = {name: [] for name in BACKENDS}
    for name, counts in turns(rounds):
        dist.barrier()
        works = [dist.all_reduce(tensor, group=groups[name], async_op=True) for tensor in tensors]
        _ = 3**exponent
        left = slowest(timed(lambda works=works: [work.wait() for work in works]))  # type: ignore[misc]
        if counts:
            found[name].append(left)
    return found


def beside_computation(groups: dict[str, dist.ProcessGroup], rounds: int) -> dict[str, Times]:
    """Seconds of an all-reduce beside an idle core and beside a computation, and of the computation, alone and beside."""
    tensor, matrix = torch.zeros(NUM_BYTES // 4), torch.ones(MATRIX, MATRIX)
    num_products = max(1, round(0.25 / timed_products(matrix, 100) * 100))
    found: dict[str, Times] = {
        what: {name: [] for name in BACKENDS} for what in ("idle", "beside", "alone", "slowed")
    }
    for name, counts in turns(rounds):
        group = groups[name]
        dist.barrier()
        idle = slowest(timed(lambda group=group: dist.all_reduce(tensor, group=group)))  # type: ignore[misc]
        dist.barrier()
        alone = slowest(timed_products(matrix, num_products))
        dist.barrier()
        beside, slowed = both_at_once(tensor, group, matrix, num_products)
        for what, seconds in (("idle", idle), ("beside", beside), ("alone", alone), ("slowed", slowed)):
            if counts:
                found[what][name].append(seconds)
    return found


def timed_products(matrix: Tensor, number: int) -> float:
    begin = time.perf_counter()
    for _ in range(number):
        torch.mm(matrix, matrix)
    return time.perf_counter() - begin


def both_at_once(
    tensor: Tensor, group: dist.ProcessGroup, matrix: Tensor, num_products: int
) -> tuple[float, float]:
    """Seconds of an all-reduce and of a computation that begin together.

    The computation goes on until the all-reduce has ended, and the next all-reduce begins until the computation has its
    number of products, so that each of the two runs beside the other all the time.
    """
    begin = time.perf_counter()
    work = dist.all_reduce(tensor, group=group, async_op=True)
    ended = slowed = 0.0
    products = 0
    while not ended or not slowed:
        torch.mm(matrix, matrix)
        products += 1
        if not ended and work.is_completed():
            ended = time.perf_counter() - begin
        if products == num_products:
            slowed = time.perf_counter() - begin
    work.wait()
    return slowest(ended), slowest(slowed)


def ddp_steps(groups: dict[str, dist.ProcessGroup], bucket: float, rounds: int) -> Times:
    """Seconds of a step, by backend, and of a step without communication."""
    networks: dict[str, Any] = {
        name: DistributedDataParallel(Transformer(), process_group=groups[name], bucket_cap_mb=bucket)
        for name in BACKENDS
    }
    found: Times = {name: [] for name in (*BACKENDS, "alone")}
    for name, counts in turns(rounds):
        network = networks[name]
        for _ in range(1 if counts else 2):  # DDP makes its buckets anew after the first step
            dist.barrier()
            seconds = slowest(timed(lambda network=network: train_step(network)))  # type: ignore[misc]
        if counts:
            found[name].append(seconds)
    for _ in range(rounds + 1):
        dist.barrier()
        found["alone"].append(slowest(timed(lambda: train_step(networks["gloo"].module))))
    found["alone"] = found["alone"][1:]
    return found


def train_step(network: nn.Module) -> None:
    tokens = torch.randint(SIZES.vocabulary, (SIZES.batch, SIZES.sequence + 1))
    torch.autograd.backward(network(tokens))
    with torch.no_grad():
        for parameter in network.parameters():
            assert parameter.grad is not None
            parameter.add_(parameter.grad, alpha=-1e-3)
            parameter.grad = None


def work_on(task: dict[str, Any], result: Path) -> None:
    """One worker: measures what the task names, and as rank 0 writes what it found."""
    rank = int(os.environ["RANK"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=300))
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}
    rounds = task["rounds"]
    measure: dict[str, Callable[[], Any]] = {
        "gil": lambda: left_after_the_lock(groups, rounds),
        "beside": lambda: beside_computation(groups, rounds),
        "ddp": lambda: ddp_steps(groups, task["bucket"], rounds),
    }
    found = measure[task["what"]]()
    if rank == 0:
        result.write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


# What the benchmark does with workers.


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What is measured, in order."""
    fastest = options.rates[-1]
    planned = [{"what": what, "rate": fastest, "rounds": options.rounds} for what in ("gil", "beside")]
    return planned + [
        {
            "what": "ddp",
            "rate": rate,
            "bucket": bucket,
            "rounds": max(2, options.rounds * min(rate, 500) // 500),
        }
        for rate in options.rates
        for bucket in options.buckets
    ]


def measure_in_lab(task: dict[str, Any]) -> Any:
    """What the workers found for a task, in a lab of its rate."""
    text = shape_text(SHAPE).replace("500Mbit/s", f"{task['rate']}Mbit/s")
    shape = Shape(f"overlap-{task['rate']}", text, DELAY_SECONDS)
    with Starter(f"overlap-{os.getpid()}", shape) as lab, tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "found.json"
        command = [sys.executable, __file__, "--worker", json.dumps(task), "--result", str(result)]
        code = execute(lab, command, timeout=900)
        if code != 0:
            raise SystemExit(f"the workers of {task} ended with {code}")
        return json.loads(result.read_text())


def cell(seconds: Sequence[float]) -> str:
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{middle * 1e3:8.1f} ms ({low * 1e3:.1f}-{high * 1e3:.1f})"


def report(task: dict[str, Any], found: Any) -> bool:
    """Print a result; whether it is within its bounds."""
    median: dict[str, float] = {
        name: statistics.median(times) for name, times in found.items() if isinstance(times, list)
    }
    if task["what"] == "gil":
        print(f"GIL held for {HELD_SECONDS * 1e3:.0f} ms, {NUM_CALLS} all-reduces under way, left to wait:")
        for name in BACKENDS:
            print(f"  {name:8} {cell(found[name])}")
        return bool(median["hemiola"] <= BOUNDS["gil left"])
    if task["what"] == "beside":
        return report_beside(task, found)
    bucket = f"DDP, {task['rate']} Mbit/s, buckets of {task['bucket']:g} MiB"
    within = bool(median["hemiola"] <= median["gloo"])
    print(
        f"{bucket:42} hemiola {cell(found['hemiola'])}  gloo {cell(found['gloo'])}  "
        f"ratio {median['hemiola'] / median['gloo']:.3f}  no communication {median['alone'] * 1e3:.0f} ms"
    )
    return within


def report_beside(task: dict[str, Any], found: dict[str, Times]) -> bool:
    print(f"All-reduce of 16 MiB over {task['rate']} Mbit/s and matrix products on the same core:")
    ratios = {}
    for name in BACKENDS:
        idle, beside, alone, slowed = (found[what][name] for what in ("idle", "beside", "alone", "slowed"))
        ratios[name] = [
            statistics.median(one) / statistics.median(other)
            for one, other in ((beside, idle), (slowed, alone))
        ]
        print(
            f"  {name:8} all-reduce: idle {cell(idle)}, beside {cell(beside)}, ratio {ratios[name][0]:.3f}\n"
            f"  {'':8} products: alone {cell(alone)}, beside {cell(slowed)}, ratio {ratios[name][1]:.3f}"
        )
    return ratios["hemiola"][0] <= BOUNDS["beside / idle"] and ratios["hemiola"][1] <= ratios["gloo"][1]


def main() -> int:
    """Measure what is not in the file yet, and print everything."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one rate, one size of buckets, few rounds")
    parser.add_argument(
        "--rates", type=lambda text: [int(rate) for rate in text.split(",")], default=[80, 125, 500]
    )
    parser.add_argument(
        "--buckets", type=lambda text: [float(size) for size in text.split(",")], default=[1.0, 4.0, 25.0]
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, help="a file of JSON lines that is continued")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work_on(options.worker, options.result)
        return 0
    if options.quick:
        options.rates, options.buckets, options.rounds = options.rates[-1:], [4.0], min(options.rounds, 5)
    machine = describe_machine()
    print(f"{machine}; PyTorch {torch.__version__}; {SHAPE}, {DELAY_SECONDS * 1e3:g} ms; baseline: gloo")
    print("medians (fastest-slowest) of the slower worker\n")
    lines = options.out.read_text().splitlines() if options.out and options.out.exists() else []
    known = {
        json.dumps(line["task"]): line["found"]
        for line in map(json.loads, lines)
        if line["machine"] == str(machine)
    }
    within = True
    for task in tasks(options):
        found = known.get(json.dumps(task)) or measure_in_lab(task)
        within &= report(task, found)
        sys.stdout.flush()
        if options.out and json.dumps(task) not in known:
            with options.out.open("a") as file:
                file.write(json.dumps({"machine": str(machine), "task": task, "found": found}) + "\n")
    print("\nwithin all bounds" if within else "\nnot within all bounds")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
