"""The two systems of the P² paper, with 2 and 4 nodes: what programs gain over the default all-reduce. SIMULATED.

    python benchmarks/p2_table.py [--rows] [--json p2_table.json]

Times of programs are closed forms (`cost/estimates/grouped_steps.py`); nothing here was measured. The payload is 2^29 x nodes floats in
every device, as in the paper. Axes are all ways to write the number of devices as one, two or three powers of two;
reduced is the first axis, or the first and the last of three; placements are all matrices. The default is the
fastest of a flat ring, a double tree over all devices, and NCCL's own tree: a chain in every host and a double tree between hosts, whose plan is
replayed. Blocking steps wait for each other, as in the paper; pipelined ones follow each other in pieces. A reduction is at the bound
where the default takes at most 5 % longer than any algorithm must. The paper reports 69 % improved, 1.27x on average, 2.04x at most, and 448x between placements, measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import prod
from pathlib import Path

from hemiola.algorithms.vendor.tree import vendor_tree
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.estimates.grouped_steps import GroupedStep, StepClock
from hemiola.cost.estimates.shared_system import shared_system
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.vendor.vendor_plan import host_levels
from hemiola.ir.plan import Plan
from hemiola.placement.axes import Axis
from hemiola.placement.enumerate import enumerate_placements
from hemiola.placement.groups import device_groups
from hemiola.placement.matrix import ParallelismMatrix, Rows
from hemiola.synthesis.costs import edge_costs, levels_above_one
from hemiola.synthesis.estimate import estimate_programs
from hemiola.synthesis.search import cheapest
from hemiola.synthesis.table import table_of
from hemiola.topology.presets import load_system
from hemiola.topology.system import System

SYSTEMS = ("p2-a100:2", "p2-a100:4", "p2-v100:2", "p2-v100:4")
CLEARLY = 1.001
"""Less than this is no improvement but rounding."""
AT_BOUND = 1.05


@dataclass(frozen=True, slots=True)
class Row:
    """One reduction under one placement."""

    system: str
    axes: tuple[int, ...]
    reduced: tuple[int, ...]
    matrix: Rows
    default_seconds: float
    default: str
    bound_seconds: float
    blocking_seconds: float
    pipelined_seconds: float
    program: str


def all_axes(num_devices: int) -> Iterator[tuple[int, ...]]:
    """The number of devices as one, two or three powers of two."""
    powers = [1 << exponent for exponent in range(1, num_devices.bit_length())]
    yield (num_devices,)
    yield from ((one, num_devices // one) for one in powers[:-1])
    for one in powers:
        for two in powers:
            if num_devices % (one * two) == 0 and num_devices // (one * two) > 1:
                yield (one, two, num_devices // (one * two))


def rows_of(name: str) -> Iterator[Row]:
    """All reductions of a system."""
    system = load_system(name)
    counts = [level.count for level in system.levels]
    num_bytes = (1 << 29) * counts[0] * 4
    for sizes in all_axes(prod(counts)):
        axes = tuple(Axis(f"axis_{number}", size) for number, size in enumerate(sizes))
        for reduced in [(0,), (0, 2)] if len(axes) == 3 else [(0,)]:
            for matrix in enumerate_placements(system, axes):
                yield estimated(name, system, matrix, reduced, num_bytes)


def estimated(
    name: str, system: System, matrix: ParallelismMatrix, reduced: tuple[int, ...], num_bytes: int
) -> Row:
    """The default, the best of blocking programs, and the best of pipelined ones."""
    groups = device_groups(matrix, [matrix.axes[number].name for number in reduced])
    request = CollectiveRequest.of_groups(CollectiveKind.ALLREDUCE, system, groups)
    share = shared_system(system, request.table)
    levels, clock = levels_above_one(share), StepClock(share)
    table = table_of(len(levels))
    (best,) = cheapest(table, edge_costs(table, share, num_bytes).seconds)
    default = clock.time(GroupedStep("allreduce", levels[0], levels[-1] + 1), num_bytes).seconds
    tree = replay_seconds(nccl_tree(host_levels(request)), num_bytes, request)
    chosen = "NCCL tree" if tree < default else "ring or double tree"
    bound = lower_bound(request.collective, num_bytes, system, groups=request.table).seconds
    (pipelined,) = estimate_programs(request, num_bytes, 1)
    sizes = tuple(axis.size for axis in matrix.axes)
    return Row(
        name, sizes, reduced, matrix.rows, min(default, tree), chosen, bound, best.cost, pipelined.seconds,
        str(pipelined.program),
    )  # fmt: skip


@lru_cache
def nccl_tree(levels: tuple[int, int]) -> Plan:
    """NCCL's tree, its chunks through as many heads as a host has devices, at most four."""
    chunks = min(4, levels[1])
    return compile_program(vendor_tree(levels=levels, chunks=chunks), CompileOptions(slots=2)).plan


def summary(rows: Sequence[Row], column: str) -> dict[str, float]:
    """What the paper reports, over these rows."""
    gains = [row.default_seconds / min(row.default_seconds, getattr(row, column)) for row in rows]
    improved = [gain for gain in gains if gain > CLEARLY]
    spreads: dict[tuple[object, ...], list[float]] = {}
    for row in rows:
        spreads.setdefault((row.system, row.axes, row.reduced), []).append(row.default_seconds)
    return {
        "pairs": len(rows),
        "share_improved": len(improved) / len(rows),
        "share_at_bound": sum(row.default_seconds <= AT_BOUND * row.bound_seconds for row in rows)
        / len(rows),
        "mean_speedup_of_improved": statistics.fmean(improved) if improved else 1.0,
        "mean_speedup_of_all": statistics.fmean(gains),
        "max_speedup": max(gains),
        "max_spread_over_placements": max(max(times) / min(times) for times in spreads.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", action="store_true", help="print every reduction and placement")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [row for name in SYSTEMS for row in rows_of(name)]
    print("SIMULATED (closed forms)")
    if arguments.rows:
        for row in rows:
            print(
                f"{row.system:10} axes {row.axes!s:14} reduce {row.reduced!s:7} matrix {row.matrix!s:30}"
                f" default {row.default_seconds:8.3f} blocking {row.blocking_seconds:8.3f}"
                f" pipelined {row.pipelined_seconds:8.3f}  {row.default_seconds / row.pipelined_seconds:5.2f}x  {row.program}"
            )
    summaries = {}
    for system in (*SYSTEMS, "all"):
        chosen = [row for row in rows if system in (row.system, "all")]
        for column in ("blocking_seconds", "pipelined_seconds"):
            found = summaries[f"{system} {column}"] = summary(chosen, column)
            print(
                f"{system:10} {column.removesuffix('_seconds'):10} {found['pairs']:4} pairs,"
                f" {found['share_improved']:4.0%} improved, {found['share_at_bound']:4.0%} at the bound by default; by {found['mean_speedup_of_improved']:.2f}x on average"
                f" ({found['mean_speedup_of_all']:.2f}x of all), {found['max_speedup']:.2f}x at most;"
                f" placements {found['max_spread_over_placements']:.0f}x apart"
            )
    if arguments.json is not None:
        answer = {"simulated": True, "rows": [asdict(row) for row in rows], "summaries": summaries}
        arguments.json.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
