"""How long compiling takes: from the chunk program to a proven file, in CPU seconds, by size of the plan.

    python benchmarks/compile.py [--repeat 3] [--json compile.json] [--family ring ...]

Each row is a process of its own, so that memory is its own peak too; the fastest and the median of the
repeats are shown. The last line of a family is the exponent of the growth of time in steps, fitted to the
fastest runs, which other work on the machine disturbs least, of 0.05 s and more.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import hemiola
from hemiola.algorithms.library import build
from hemiola.collectives import Custom, SendRecv
from hemiola.compiler.compile import compile_program
from hemiola.compiler.deliver import deliver
from hemiola.compiler.options import CompileOptions
from hemiola.ir.targets import PLAN
from hemiola.language.program import Program

SHORTEST_FITTED_SECONDS = 0.05


def library(name: str) -> Callable[[int], Program]:
    """A library algorithm by its number of ranks."""
    return lambda ranks: build(name, {"ranks": str(ranks), "in_place": "true"})


def replicated_ring(ranks: int) -> Program:
    """Ring all-reduce with 8 instances."""
    return build("allreduce_ring", {"ranks": str(ranks), "instances": "8", "in_place": "true"})


def hierarchical(nodes: int) -> Program:
    """Hierarchical all-reduce on nodes of 8."""
    return build("allreduce_hierarchical", {"levels": f"{nodes},8", "in_place": "true"})


def two_step(nodes: int) -> Program:
    """Two-step all-to-all on nodes of 8."""
    return build("alltoall_two_step", {"levels": f"{nodes},8"})


def diamonds(length: int) -> Program:
    """A chain of local diamonds: two chunks are copied, each is reduced on its own, and both are copied on."""
    promises = {(0, half): [(0, half + 2 * i) for i in range(length + 1)] for half in (0, 1)}
    p = Program("diamonds", Custom(input_chunks=[2 * length + 2], output_chunks=[2], promises=promises))
    both = p.chunk(0, "input", 0, 2)
    for i in range(length):
        halves = both.copy(0, f"scratch{i % 2}", 0).split(2)
        for half, part in enumerate(halves):
            part.reduce(p.chunk(0, "input", 2 * i + 2 + half))
        both = p.chunk(0, f"scratch{i % 2}", 0, 2)
    both.copy(0, "output", 0)
    return p


def gaps(chunks: int) -> Program:
    """Chunks sent one by one in an order that jumps: memory is filled with gaps."""
    p = Program("gaps", SendRecv(2, chunks=chunks))
    for index in sorted(range(chunks), key=lambda i: i * 2_654_435_761 % 4_294_967_296):
        p.chunk(0, "input", index).copy(1, "output", index)
    return p


@dataclass(frozen=True, slots=True)
class Family:
    """Programs of one kind, by a growing parameter, with the limit in CPU seconds for some of them."""

    title: str
    build: Callable[[int], Program]
    sizes: tuple[int, ...]
    limits: dict[int, float]


FAMILIES = {
    "ring": Family(
        "ring all-reduce, 1 instance", library("allreduce_ring"), (64, 128, 256, 512, 1024), {1024: 25}
    ),
    "ring8": Family("ring all-reduce, 8 instances", replicated_ring, (16, 32, 64, 128, 256), {128: 3}),
    "allpairs": Family(
        "all-pairs all-reduce", library("allreduce_allpairs"), (16, 32, 64, 128, 256), {32: 1, 64: 4}
    ),
    "halving": Family(
        "halving-doubling all-reduce",
        library("allreduce_halving_doubling"),
        (64, 128, 512, 2048, 4096),
        {128: 1},
    ),
    "twostep": Family("two-step all-to-all, n x 8", two_step, (8, 16, 32, 64), {32: 4}),
    "hierarchical": Family("hierarchical all-reduce, n x 8", hierarchical, (16, 32, 64, 128, 256), {16: 2}),
    "diamonds": Family("chain of local diamonds", diamonds, (2_500, 10_000, 40_000, 160_000), {10_000: 1}),
    "gaps": Family("chunks sent in a jumping order", gaps, (20_000, 80_000, 320_000), {}),
}


def measure_here(family: str, size: int) -> dict[str, float]:
    """One compilation in this process."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        dag = FAMILIES[family].build(size).finish()
        traced = time.process_time()
        compiled = compile_program(dag, CompileOptions(slots=2))
        deliver(compiled.plan, Path(folder) / "a.plan", PLAN, slots=2)
        end = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "steps": compiled.plan.num_steps,
        "seconds": end - begin,
        "trace": traced - begin,
        "megabytes": peak,
    }


def measure(family: str, size: int, repeat: int) -> dict[str, float]:
    """The median of several processes."""
    runs = []
    for _ in range(repeat):
        command = [sys.executable, __file__, "--one", family, str(size)]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    seconds = [run["seconds"] for run in runs]
    row = dict(
        runs[0], size=size, seconds=statistics.median(seconds), fastest=min(seconds), slowest=max(seconds)
    )
    row["megabytes"] = max(run["megabytes"] for run in runs)
    return row


def fit_exponent(rows: list[dict[str, float]]) -> float | None:
    """The slope of log(seconds) over log(steps) of the fastest runs, by least squares; None for one row."""
    points = [
        (math.log(row["steps"]), math.log(row["fastest"]))
        for row in rows
        if row["fastest"] >= SHORTEST_FITTED_SECONDS
    ]
    if len(points) < 2:
        return None
    mean_x, mean_y = (statistics.fmean(values) for values in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def main() -> int:
    """Measure every family; 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--family", action="append", choices=list(FAMILIES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("FAMILY", "SIZE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure_here(arguments.one[0], int(arguments.one[1]))))
        return 0
    print(f"hemiola {hemiola.__version__}, Python {platform.python_version()}, {platform.machine()}, "
          f"{os.cpu_count()} cores; CPU seconds, median of {arguments.repeat} (fastest-slowest)")  # fmt: skip
    results, broken = {}, False
    for name in arguments.family or FAMILIES:
        family = FAMILIES[name]
        print(
            f"\n{family.title}\n{'size':>8} {'steps':>9} {'seconds':>8} {'spread':>13} {'trace':>6} {'MB':>6}  limit"
        )
        rows = [measure(name, size, arguments.repeat) for size in family.sizes]
        for row in rows:
            limit = family.limits.get(int(row["size"]))
            late = limit is not None and row["seconds"] > limit
            broken |= late
            said = "" if limit is None else f"{limit:g} s" + (" BROKEN" if late else "")
            print(f"{row['size']:8.0f} {row['steps']:9.0f} {row['seconds']:8.3f} "
                  f"{row['fastest']:6.3f}-{row['slowest']:6.3f} {row['trace']:6.2f} {row['megabytes']:6.0f}  {said}")  # fmt: skip
        exponent = fit_exponent(rows)
        print(f"growth: time ~ steps^{exponent:.2f}" if exponent is not None else "growth: too quick to fit")
        broken |= exponent is not None and exponent > 1.15
        results[name] = {"rows": rows, "exponent": exponent}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
