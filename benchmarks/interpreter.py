"""What the interpreter costs: the compiled ring plan against a ring written by hand in C++.

Both run over the same queues in the same processes, alternately; csrc/bench/ring_by_hand.cc is the ring by hand.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import numpy as np

from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.report.machine import describe_machine
from hemiola.units import format_bytes, parse_bytes

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "bench"


def build_executable() -> Path:
    """The C++ side, compiled like the core."""
    tools = Path(sys.executable).parent
    options = [f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", "-DHEMIOLA_BENCH=ON", "-DHEMIOLA_PYTHON=OFF"]
    cmake = str(tools / "cmake")
    configure = [cmake, "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "--log-level=WARNING", *options]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", str(BUILD)], check=True, stdout=subprocess.DEVNULL)
    return BUILD / "ring_by_hand"


def write_tables(path: Path, num_ranks: int) -> None:
    """The compiled ring for calls in place, one chunk a rank."""
    program = build("allreduce_ring", {"ranks": str(num_ranks), "in_place": "true"})
    plan = compile_program(program).plan
    assert plan.collective.chunks == num_ranks
    with path.open("wb") as file:
        for rows in (plan.ranks, plan.threadblocks, plan.steps, plan.dependencies):
            file.write(np.uint64(len(rows)).tobytes() + rows.tobytes())


def measure(executable: Path, num_ranks: int, num_bytes: int, message: int, rounds: int) -> list[list[float]]:
    """Seconds of the plan and of the ring by hand, a pair per round."""
    repeats = max(1, min(2000, (64 << 20) // num_bytes // num_ranks))
    with tempfile.TemporaryDirectory() as folder:
        tables = Path(folder) / "ring.tables"
        write_tables(tables, num_ranks)
        numbers = map(str, (num_ranks, num_bytes, message, rounds, repeats))
        result = subprocess.run([executable, tables, *numbers], check=True, capture_output=True, text=True)
    return [[float(word) for word in line.split()] for line in result.stdout.splitlines()]


@click.command()
@click.option("--ranks", default="2,4,8", show_default=True)
@click.option("--sizes", default="1MiB,4MiB,16MiB,64MiB", show_default=True)
@click.option("--message", default="256KiB", show_default=True, help="bytes of a message")
@click.option("--rounds", default=101, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(ranks: str, sizes: str, message: str, rounds: int, as_json: bool) -> None:
    """The compiled ring plan against a ring written by hand over the same queues."""
    executable = build_executable()
    rows = []
    if not as_json:
        print(describe_machine())
        print("  ranks      size   plan (ms)   by hand (ms)   plan / by hand: median (quartiles)")
    for num_ranks in map(int, ranks.split(",")):
        for size in map(parse_bytes, sizes.split(",")):
            pairs = measure(executable, num_ranks, size, parse_bytes(message), rounds)
            plan, hand = (statistics.median(column) for column in zip(*pairs, strict=True))
            low, middle, high = statistics.quantiles([p / h for p, h in pairs], n=4)
            rows.append(
                {
                    "ranks": num_ranks,
                    "bytes": size,
                    "plan_seconds": plan,
                    "hand_seconds": hand,
                    "ratio": middle,
                }
            )
            if not as_json:
                print(
                    f"  {num_ranks:5}  {format_bytes(size):>8}  {plan * 1e3:10.3f}  {hand * 1e3:13.3f}"
                    f"   {middle:.3f} ({low:.3f} to {high:.3f})",
                    flush=True,
                )
    if as_json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
