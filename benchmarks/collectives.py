"""How fast collectives are beside Gloo and MPI on this machine, and how close to its bound.

    python benchmarks/collectives.py [--repeat 7] [--ranks 2,4,8] [--json collectives.json] [--collective NAME ...]

Runs ``hemiola bench`` for each collective and compares every row with what is promised of it:

- all-reduce up to 1 MiB at least 8 times as fast as Gloo, above at least 2.5 times;
- all-reduce from 1 MiB up at least twice as fast as MPI, below at most 1.05 times its time;
- all-reduce of 64 MiB on 8 ranks within twice the bound;
- all-gather and all-to-all at least twice as fast as Gloo at every size.

Exits with 1 when a promise is broken. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MIB = 1 << 20
SIZES = "4KiB..64MiB"
COLLECTIVES = ("allreduce", "allgather", "alltoall")

Row = dict[str, Any]


def measure(collective: str, ranks: str, repeat: int) -> dict[str, Any]:
    """What ``hemiola bench`` says."""
    hemiola = str(Path(sys.executable).with_name("hemiola"))
    words = ["bench", collective, "--ranks", ranks, "--sizes", SIZES, "--repeat", str(repeat)]
    command = [hemiola, *words, "--against", "gloo,mpi", "--json"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    assert isinstance(found, dict)
    return found


def promises(collective: str, row: Row) -> Iterator[tuple[str, float, float]]:
    """What is promised of a row: its name, the least ratio, and the ratio found."""
    gloo = row["gloo_seconds"] / row["hemiola_seconds"]
    mpi = row["mpi_seconds"] / row["communicator_seconds"]
    if collective != "allreduce":
        yield "x gloo", 2.0, gloo
        return
    yield "x gloo", 8.0 if row["bytes"] <= MIB else 2.5, gloo
    yield "x mpi", 2.0 if row["bytes"] >= MIB else 1 / 1.05, mpi
    if (row["ranks"], row["bytes"]) == (8, 64 * MIB):
        yield "of bound", 0.5, row["bound_seconds"] / row["hemiola_seconds"]


def show(collective: str, row: Row) -> bool:
    """Print a row; whether every promise holds."""
    names = ("hemiola", "gloo", "communicator", "mpi", "bound")
    times = " ".join(f"{1e3 * row[f'{name}_seconds']:>12.3f}" for name in names)
    checked = list(promises(collective, row))
    said = "  ".join(
        f"{found:.2f} {name}{'' if found >= least else f' BROKEN, {least:.2f} promised'}"
        for name, least, found in checked
    )
    print(f"{row['ranks']:>5} {row['bytes']:>10} {times}  {said}", flush=True)
    return all(found >= least for _, least, found in checked)


def main() -> int:
    """Measure every collective; 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--collective", action="append", choices=COLLECTIVES)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results, holds = {}, True
    for collective in arguments.collective or COLLECTIVES:
        results[collective] = measure(collective, arguments.ranks, arguments.repeat)
        print(f"\n{collective}, float32, ms\n{'ranks':>5} {'bytes':>10} {'hemiola':>12} {'gloo':>12} "
              f"{'communicator':>12} {'mpi':>12} {'bound':>12}")  # fmt: skip
        for row in results[collective]["rows"]:
            holds &= show(collective, row)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
