"""How fast a job is planned: all placements ranked for its whole traffic, then the best program of every reduction found.

    python benchmarks/planning.py [--repeat 3] [--json planning.json]

65,536 devices in 64 racks of 16 x 8 hosts of 8, with data, tensor and pipeline axes of every sizes that multiply to that;
and 32 devices. The traffic is that of a Megatron step as a list: seven requests over one, two or three axes. Programs are
searched under the best placement, of any length, by closed forms. The tables of programs are made once and kept; how
long the largest takes is measured too, in a process and a cache of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.placement.axes import Axes, Axis
from hemiola.placement.groups import device_groups
from hemiola.placement.place import PlacementResult, place
from hemiola.placement.traffic import Traffic, TrafficRequest
from hemiola.report.machine import describe_machine
from hemiola.synthesis.estimate import estimate_programs
from hemiola.synthesis.state import REDUCTIONS
from hemiola.topology.system import Level, Link, System

MIB = 1 << 20
TABLE_LIMIT = 5.0
LARGE = System(
    "64 racks",
    (
        Level("rack", 64, Link(400e9, 400e9, 2e-6)),
        Level("row", 16, Link(100e9, 100e9, 1e-6, num=4)),
        Level("host", 8, Link(25e9, 25e9, 1e-6, num=8)),
        Level("gpu", 8, Link(300e9, 300e9)),
    ),
)
SMALL = System(
    "4 hosts", (Level("host", 4, Link(25e9, 25e9, 1e-6, num=8)), Level("gpu", 8, Link(300e9, 300e9)))
)
TRAFFIC = Traffic(
    (
        TrafficRequest(CollectiveKind.ALLGATHER, ("tensor",), 64 * MIB, 128, name="activations, gathered"),
        TrafficRequest(
            CollectiveKind.REDUCESCATTER, ("tensor",), 64 * MIB, 128, name="activations, scattered"
        ),
        TrafficRequest(CollectiveKind.ALLREDUCE, ("tensor",), MIB, 3, name="loss"),
        TrafficRequest(CollectiveKind.ALLTONEXT, ("pipeline",), 8 * MIB, 64, name="to the next stage"),
        TrafficRequest(CollectiveKind.ALLREDUCE, ("data",), 512 * MIB, 1, "backward", "gradients"),
        TrafficRequest(CollectiveKind.ALLTOALL, ("data",), 16 * MIB, 16, name="tokens"),
        TrafficRequest(CollectiveKind.BROADCAST, ("data", "pipeline"), MIB, 1, name="settings"),
    ),
    {"backward": 0.05},
)


@dataclass(frozen=True)
class Row:
    """All sizes of the axes on one system."""

    system: str
    num_devices: int
    num_axes_sizes: int
    num_placements: int
    """Of all sizes together."""
    median_seconds: float
    most_seconds: float
    """Of one job: all placements of one choice of sizes, and its programs."""
    most_programs_seconds: float
    """The part of it for programs, where it is most."""
    num_programs: int
    limit_seconds: float


def sizes(num_devices: int) -> Iterator[Axes]:
    """Data, tensor and pipeline axes whose product is that; powers of two."""
    power = num_devices.bit_length() - 1
    for tensor in range(power + 1):
        for pipeline in range(power - tensor + 1):
            numbers = (power - tensor - pipeline, tensor, pipeline)
            yield tuple(
                Axis(name, 1 << exponent)
                for name, exponent in zip(("data", "tensor", "pipeline"), numbers, strict=True)
            )


def best_programs(system: System, result: PlacementResult, axes: Axes) -> int:
    """The best program of every reduction of the traffic under the best placement; how many there are."""
    assert result.ranking is not None
    matrix, sizes_of, found = result.ranking.scores[0].matrix, {axis.name: axis.size for axis in axes}, 0
    for traffic in TRAFFIC.requests:
        if traffic.collective in REDUCTIONS and math.prod(sizes_of[name] for name in traffic.over) > 1:
            groups = device_groups(matrix, traffic.over)
            request = CollectiveRequest.of_groups(traffic.collective, system, groups)
            found += len(estimate_programs(request, traffic.num_bytes, 1))
    return found


def measure(system: System, num_devices: int, limit: float, repeat: int) -> Row:
    """The time of each choice of sizes, the median of some runs."""
    every, searches, placements, programs = [], [], 0, 0
    for axes in sizes(num_devices):
        times, parts = [], []
        for _ in range(repeat):
            begin = time.perf_counter()
            # A system that remembers nothing of earlier runs.
            fresh = replace(system)
            result: PlacementResult = place(fresh, axes, TRAFFIC, replay=False)
            placed = time.perf_counter()
            found = best_programs(fresh, result, axes)
            times.append(time.perf_counter() - begin)
            parts.append(time.perf_counter() - placed)
        assert result.ranking is not None
        placements += result.ranking.num_placements
        programs += found
        every.append(statistics.median(times))
        searches.append(statistics.median(parts))
    return Row(
        system.name, num_devices, len(every), placements, statistics.median(every), max(every), max(searches), programs, limit
    )  # fmt: skip


def table_seconds() -> float:
    """How long the table of four levels takes where nothing is kept, without the start of Python."""
    code = "import time; from hemiola.synthesis.table import table_of; t = time.perf_counter(); table_of(4); print(time.perf_counter() - t)"
    with tempfile.TemporaryDirectory() as empty:
        return float(
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "XDG_CACHE_HOME": empty},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    print(describe_machine())
    table = table_seconds()
    print(
        f"  the table of four levels: {table:.2f} s (limit {TABLE_LIMIT} s: {'ok' if table <= TABLE_LIMIT else 'too slow'})"
    )
    found = [measure(SMALL, 32, 0.1, arguments.repeat), measure(LARGE, 65536, 2.0, arguments.repeat)]
    for row in found:
        verdict = "ok" if row.most_seconds <= row.limit_seconds else "too slow"
        print(
            f"  {row.num_devices:6} devices, {row.num_axes_sizes} sizes of axes, {row.num_placements} placements,"
            f" {row.num_programs} reductions: median {row.median_seconds:.4f} s, most {row.most_seconds:.4f} s"
            f" (programs at most {row.most_programs_seconds:.4f} s; limit {row.limit_seconds} s: {verdict})"
        )
    if arguments.json:
        document = {
            "machine": describe_machine(),
            "table_seconds": table,
            "rows": [asdict(row) for row in found],
        }
        Path(arguments.json).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
