"""How fast the simulator is; plans are made beforehand and not counted.

    python benchmarks/simulate.py [--repeat 5] [--json simulate.json]

A step is one step of one tile. Hierarchical all-reduces of 1 GiB run on 8 x N/8 devices whose NICs and links
are shared, folded; a ring of 1024 runs unfolded; and an oversubscribed system with one slow NIC, unfolded
and by events, is compared with the exact reference of the tests on a small copy. Compiling 17 million steps
takes minutes, so the plan for 8192 ranks is written down as tables; the same tables for fewer ranks are
compared with the compiled plans.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from hemiola.algorithms.library import build
from hemiola.collectives import AllReduce
from hemiola.compiler.compile import compile_program
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import DEPENDENCY, NO_PEER, RANK, STEP, THREADBLOCK, Plan, Protocol
from hemiola.report.machine import describe_machine
from hemiola.simulator.replay import ReplayOptions, simulate
from hemiola.simulator.runtimes.runtime_model import EqualTiles
from hemiola.simulator.timeline import Load, Timeline
from hemiola.topology.system import Level, Link, System
from simulator.reference import reference_seconds

LOCAL = 8
GIB = 1 << 30
UNFOLDED = ReplayOptions(fold=False)


@dataclass(frozen=True)
class Row:
    """One measurement."""

    name: str
    median_seconds: float
    least_seconds: float
    most_seconds: float
    simulated_steps: int
    all_steps: int
    predicted_seconds: float

    @property
    def steps_per_second(self) -> float:
        """Of those that were really stepped."""
        return self.simulated_steps / self.median_seconds


def hosts(num_hosts: int) -> System:
    """Hosts of eight devices with one NIC each, which all of them share."""
    return System(
        f"{num_hosts}x{LOCAL}",
        (
            Level("host", num_hosts, Link(25e9, 25e9, 5e-6)),
            Level("device", LOCAL, Link(270e9, 270e9, 1e-6)),
        ),
    )


def oversubscribed(racks: int, num_hosts: int, local: int) -> System:
    """Racks with a quarter of their hosts' bandwidth, and one NIC four times slower than the others."""
    nic = Link(25e9, 25e9, 5e-6)
    uplink = Link(25e9 * num_hosts / 4, 25e9 * num_hosts / 4, 2e-6)
    levels = (
        Level("rack", racks, uplink),
        Level("host", num_hosts, nic),
        Level("device", local, Link(270e9, 270e9, 1e-6)),
    )
    return System("oversubscribed", levels, exceptions={(racks - 1, num_hosts - 1): nic.scaled(0.25)})


def compiled(name: str, **arguments: object) -> Plan:
    """A plan of the library."""
    return compile_program(build(name, {key: str(value) for key, value in arguments.items()})).plan


def hierarchical_tables(num_hosts: int) -> Plan:
    """Hierarchical all-reduce in place as the compiler makes it: a threadblock between hosts, two inside.

    Only what takes time is written down: opcodes, counts, peers and dependencies, not the places of chunks.
    """
    ring = [Opcode.S, *[Opcode.RRS] * (num_hosts - 2), Opcode.RRCS, *[Opcode.RCS] * (num_hosts - 2), Opcode.R]
    across, inside, outwards = 0, 1, 2
    steps = [(int(opcode), 1) for opcode in ring]
    steps += [(int(Opcode.RRC), num_hosts)] * (LOCAL - 1) + [(int(Opcode.R), num_hosts)] * (LOCAL - 1)
    steps += [(int(Opcode.S), num_hosts)] * (2 * LOCAL - 2)
    waits: dict[int, tuple[int, int]] = {0: (inside, LOCAL - 2)}
    first_inside, first_outwards = len(ring), len(ring) + 2 * LOCAL - 2
    for k in range(LOCAL - 1):
        waits[first_inside + LOCAL - 1 + k] = (outwards, k)
    for k in range(1, 2 * LOCAL - 2):
        waits[first_outwards + k] = (across, len(ring) - 1) if k == LOCAL - 1 else (inside, k - 1)

    num_ranks = num_hosts * LOCAL
    one = np.zeros(len(steps), STEP)
    one["opcode"], one["count"] = np.array(steps).T
    one["first_dependency"] = np.cumsum([0] + [k in waits for k in range(len(steps) - 1)])
    table = np.tile(one, num_ranks)
    table["first_dependency"] += np.repeat(np.arange(num_ranks, dtype=np.uint32) * len(waits), len(steps))
    blocks = np.zeros((num_ranks, 3), THREADBLOCK)
    ranks = np.arange(num_ranks)
    blocks["rank"] = ranks[:, None]
    beside = ranks // LOCAL * LOCAL
    blocks["send_peer"] = np.stack(
        [(ranks + LOCAL) % num_ranks, np.full(num_ranks, NO_PEER), beside + (ranks + 1) % LOCAL], axis=1
    )
    blocks["recv_peer"] = np.stack(
        [(ranks - LOCAL) % num_ranks, beside + (ranks - 1) % LOCAL, np.full(num_ranks, NO_PEER)], axis=1
    )
    blocks["first_step"] = ranks[:, None] * len(steps) + np.array([0, first_inside, first_outwards])
    rows = np.zeros(num_ranks, RANK)
    rows["input_chunks"], rows["first_threadblock"] = num_ranks, 3 * ranks
    dependencies = np.tile(np.array([waits[k] for k in sorted(waits)], DEPENDENCY), num_ranks)
    collective = AllReduce(num_ranks, num_ranks, in_place=True)
    return Plan("tables", collective, Protocol.SIMPLE, rows, blocks.reshape(-1), table, dependencies)


def measure(name: str, repeat: int, run: Callable[[], Timeline]) -> Row:
    """Wall times of some runs, after one that is not counted."""
    found = run()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return Row(
        name,
        statistics.median(times),
        min(times),
        max(times),
        found.num_simulated,
        found.num_steps,
        found.seconds,
    )


def check_tables(num_hosts: int) -> float:
    """How far the written tables are from the compiled plan, in predicted time."""
    plan = compiled(
        "allreduce_hierarchical", ranks=num_hosts * LOCAL, levels=f"{num_hosts},{LOCAL}", in_place="true"
    )
    system = hosts(num_hosts)
    expected = simulate(plan, system, GIB).seconds
    return abs(simulate(hierarchical_tables(num_hosts), system, GIB).seconds / expected - 1)


def check_reference() -> float:
    """The largest difference from the exact reference on a small oversubscribed system."""
    plan, system = compiled("allreduce_hierarchical", ranks=8, levels="4,2"), oversubscribed(2, 2, 2)
    expected = np.array(reference_seconds([Load(plan, 1 << 22)], system, EqualTiles(4)))
    found = simulate(plan, system, 1 << 22, runtime=EqualTiles(4), options=UNFOLDED).threadblock_seconds
    return float(np.abs(found / expected - 1).max())


def rows(repeat: int, largest: int) -> Iterator[Row]:
    """All measurements, one after another."""
    for num_ranks in (n for n in (64, 1024, 8192) if n <= largest):
        plan, system = hierarchical_tables(num_ranks // LOCAL), hosts(num_ranks // LOCAL)
        run = partial(_simulate_afresh, plan, system)
        yield measure(f"hierarchical {num_ranks}, 1 GiB, folded", repeat, run)
    ring = compiled("allreduce_ring", ranks=1024, in_place="true")
    run = partial(simulate, ring, hosts(128), 1 << 24, options=UNFOLDED)
    yield measure("ring 1024, 16 MiB, unfolded", repeat, run)
    for name, racks in (("allreduce_hierarchical", 4), ("alltoall_two_step", 2)):
        system = oversubscribed(racks, 8, LOCAL)
        plan = compiled(name, ranks=system.num_ranks, levels=f"{8 * racks},{LOCAL}")
        run = partial(simulate, plan, system, 1 << 22, options=UNFOLDED)
        yield measure(f"{name} {system.num_ranks}, slow NIC, unfolded", repeat, run)


def _simulate_afresh(plan: Plan, system: System) -> Timeline:
    """With a system that remembers nothing of earlier runs."""
    return simulate(plan, replace(system), GIB)


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--largest", type=int, default=8192, help="ranks of the largest hierarchical all-reduce"
    )
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    print(describe_machine())
    differences = {
        "tables of 64 ranks, from the compiled plan": check_tables(8),
        "tables of 1024 ranks, from the compiled plan": check_tables(128),
        "oversubscribed with a slow NIC, from the exact reference": check_reference(),
    }
    for what, difference in differences.items():
        print(f"  {what}: relative difference {difference:.1e}")
    print(
        f"  {'':52} {'median s':>9} {'least':>9} {'most':>9} {'stepped':>10} {'all steps':>13} {'M stepped/s':>12}"
    )
    found = []
    for row in rows(arguments.repeat, arguments.largest):
        found.append(row)
        print(
            f"  {row.name:52} {row.median_seconds:9.4f} {row.least_seconds:9.4f} {row.most_seconds:9.4f}"
            f" {row.simulated_steps:10} {row.all_steps:13} {row.steps_per_second / 1e6:12.2f}",
            flush=True,
        )
    if arguments.json:
        document = {
            "machine": describe_machine(),
            "differences": differences,
            "rows": [asdict(row) for row in found],
        }
        Path(arguments.json).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
