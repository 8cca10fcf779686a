"""Collectives on shaped networks in the lab: our plans against each other, Gloo and Open MPI, on the same wire.

    python benchmarks/lab_collectives.py [--only wire,allreduce,…] [--quick] [--json lab.json] [--page docs/results.md]

It takes root (network namespaces) and, whole, less than 30 minutes on two cores. All that stand in one table took
turns, round after round; a number is the median of the rounds and how far the quickest or slowest was from it. "of the
wire" is the time that the bytes of the plan need on its busiest cable, divided by what was measured. A measurement
during which more than 60 % of the cores were busy, or on a network on which our flat ring of 8 MiB did not come within
20 % of the wire, is marked CPU-bound and not used for a claim.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hemiola.collectives import CollectiveKind
from hemiola.compiler.options import CompileOptions
from hemiola.errors import HemiolaError
from hemiola.integrations.bench.backend import IN_PLACE
from hemiola.integrations.bench.backend_processes import obstacle as missing_library
from hemiola.ir.plan import Plan
from hemiola.lab.library_plan import plan_of, rings
from hemiola.lab.measure import Measured
from hemiola.lab.namespaces import obstacle
from hemiola.lab.session import ELEMENT, LABELS, OWN_CHOICE, Session, open_session
from hemiola.report.machine import describe_machine
from hemiola.units import format_bytes, format_seconds

KIB, MIB = 1 << 10, 1 << 20
RING, HIERARCHICAL = "flat ring", "hierarchical"
LEVELS: Mapping[str, tuple[int, ...]] = {
    "2x4": (2, 4), "4x2": (4, 2), "4x4": (4, 4), "2racks-2x2": (4, 2), "rails-2x4": (2, 4), "uneven-4x2": (4, 2),
    "wan-2x1": (2, 1),
}  # fmt: skip
ALLREDUCE_SHAPES = ("2x4", "4x2", "4x4", "2racks-2x2")
ALLREDUCE_SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB)
PAIR_SIZES = (KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB)
ALLTOALL_DELAY = 2e-3
NEXT_SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB)
NUMBERS_OF = (1, 2, 4, 8)
"""Slots and instances of the ablation."""
LEFT_OUT = (
    "order_operations", "forward_copies", "fuse", "assign_channels", "assign_threadblocks", "order_steps",
    "drop_redundant_dependencies",
)  # fmt: skip
"""Passes that only make a plan better, so that each can be left out."""
WIRE_BYTES = 8 * MIB
NEAR_THE_WIRE = 0.8
LONG_BYTES, FEW_ROUNDS, MANY_ROUNDS = 4 * MIB, 3, 5
"""From this size on there are fewer rounds: a call takes long, and varies less."""


@dataclass(frozen=True, slots=True)
class Table:
    """What took turns: one network, one collective, one size."""

    claim: str
    shape: str
    kind: CollectiveKind
    num_bytes: int
    """Of the collective (`collectives.kinds`)."""
    rows: tuple[Measured, ...]
    near_the_wire: bool

    def ratio(self, slow: str, fast: str) -> float | None:
        """How many times as fast one is as the other; None where one is CPU-bound or did not run."""
        found = {row.label: row for row in self.rows}
        if (
            slow not in found
            or fast not in found
            or not all(self.counts(found[name]) for name in (slow, fast))
        ):
            return None
        return found[slow].seconds / found[fast].seconds

    def counts(self, row: Measured) -> bool:
        """Whether it was the wire that was measured."""
        return self.near_the_wire and row.counts


def allreduce_plans(shape: str) -> dict[str, Plan]:
    """All-reduces that a network can be asked to carry."""
    levels = LEVELS[shape]
    num_ranks = levels[0] * levels[1]
    plans = {
        RING: plan_of("allreduce_ring", num_ranks),
        HIERARCHICAL: plan_of("allreduce_hierarchical", num_ranks, **rings(levels)),
        "hierarchical, all pairs": plan_of(
            "allreduce_hierarchical", num_ranks, levels=levels, inside="allpairs", across="allpairs"
        ),
        "double tree": plan_of("allreduce_double_binary_tree", num_ranks),
        "halving-doubling": plan_of("allreduce_halving_doubling", num_ranks),
    }
    if shape == "2racks-2x2":
        plans["hierarchical, 3 levels"] = plan_of("allreduce_hierarchical", num_ranks, **rings((2, 2, 2)))
    return plans


class Bench:
    """The measurements, claim by claim."""

    def __init__(self, libraries: Sequence[str], *, quick: bool) -> None:
        self._libraries, self._quick = libraries, quick
        self._near: dict[str, bool] = {}

    def wire(self) -> Iterator[Table]:
        """How near to the wire a flat ring and a hierarchical all-reduce come, on every shape."""
        for shape in LEVELS if not self._quick else ("2x4",):
            with open_session(shape) as session:
                yield self._wire_table(session, shape)

    def allreduce(self) -> Iterator[Table]:
        """Hierarchical against flat, double tree and halving-doubling, and the libraries."""
        for shape in ALLREDUCE_SHAPES if not self._quick else ("2x4",):
            with open_session(shape, libraries=self._libraries) as session:
                self._look_at_wire(session, shape)
                plans = allreduce_plans(shape)
                for size in ALLREDUCE_SIZES if not self._quick else (MIB,):
                    yield self._table("allreduce", session, shape, CollectiveKind.ALLREDUCE, size, plans)

    def alltoall(self) -> Iterator[Table]:
        """Two-step and three-step against all pairs, with 2 ms between hosts; sizes are of a pair of ranks."""
        shape = "4x4"
        libraries = () if self._quick else self._libraries  # 32 processes more to start
        with open_session(shape, delay=ALLTOALL_DELAY, libraries=libraries) as session:
            nodes, local = LEVELS[shape]
            plans = {
                "all pairs": plan_of("alltoall_allpairs", nodes * local),
                "two-step": plan_of("alltoall_two_step", nodes * local, levels=(nodes, local)),
                "three-step": plan_of("alltoall_three_step", nodes * local, levels=(nodes, local)),
            }
            self._look_at_wire(session, f"{shape}, 2 ms", LEVELS[shape])
            for size in PAIR_SIZES if not self._quick else (4 * KIB,):
                yield self._table(
                    "alltoall",
                    session,
                    f"{shape}, 2 ms",
                    CollectiveKind.ALLTOALL,
                    size * nodes * local,
                    plans,
                    libraries,
                )

    def alltonext(self) -> Iterator[Table]:
        """All-to-next over all rails against plain sends."""
        shape = "rails-2x4"
        nodes, local = LEVELS[shape]
        with open_session(shape) as session:
            self._look_at_wire(session, shape)
            plans = {
                "plain sends": plan_of("alltonext_direct", nodes * local),
                "over all rails": plan_of("alltonext_scattered", nodes * local, levels=(nodes, local)),
            }
            for size in NEXT_SIZES if not self._quick else (MIB,):
                yield self._table(
                    "alltonext", session, shape, CollectiveKind.ALLTONEXT, size, plans, libraries=()
                )

    def passes(self) -> Iterator[Table]:
        """Each pass of the compiler left out in turn, on the hierarchical all-reduce."""
        shape = "2x4"
        with open_session(shape) as session:
            self._look_at_wire(session, shape)
            levels = LEVELS[shape]
            plans = {"all passes": plan_of("allreduce_hierarchical", levels[0] * levels[1], **rings(levels))}
            for name in LEFT_OUT:
                plans[f"without {name}"] = plan_of(
                    "allreduce_hierarchical",
                    levels[0] * levels[1],
                    options=CompileOptions(disabled=frozenset({name})),
                    **rings(levels),
                )
            for size in (64 * KIB, MIB, 8 * MIB) if not self._quick else (MIB,):
                yield self._table(
                    "passes",
                    session,
                    shape,
                    CollectiveKind.ALLREDUCE,
                    size,
                    plans,
                    libraries=(),
                    own_choice=False,
                )

    def slots(self) -> Iterator[Table]:
        """Slots of a connection, on the hierarchical all-reduce."""
        sizes = (MIB, 8 * MIB) if not self._quick else (MIB,)
        found: dict[int, list[Measured]] = {size: [] for size in sizes}
        shape, levels = "2x4", LEVELS["2x4"]
        for number in NUMBERS_OF if not self._quick else (1, 4):
            with open_session(shape, variables={"HEMIOLA_SLOTS": str(number)}) as session:
                self._look_at_wire(session, shape)
                plan = plan_of(
                    "allreduce_hierarchical",
                    levels[0] * levels[1],
                    options=CompileOptions(slots=number),
                    **rings(levels),
                )
                for size in sizes:
                    found[size] += session.measure(
                        CollectiveKind.ALLREDUCE, size, {f"{number} slots": plan}, MANY_ROUNDS
                    )
        for size, rows in found.items():
            yield Table("slots", shape, CollectiveKind.ALLREDUCE, size, tuple(rows), self._near[shape])

    def instances(self) -> Iterator[Table]:
        """Instances of the hierarchical all-reduce."""
        shape, levels = "2x4", LEVELS["2x4"]
        with open_session(shape) as session:
            self._look_at_wire(session, shape)
            plans = {
                f"{number} instances": plan_of(
                    "allreduce_hierarchical", levels[0] * levels[1], instances=number, **rings(levels)
                )
                for number in (NUMBERS_OF if not self._quick else (1, 4))
            }
            for size in (64 * KIB, MIB, 8 * MIB) if not self._quick else (MIB,):
                yield self._table(
                    "instances",
                    session,
                    shape,
                    CollectiveKind.ALLREDUCE,
                    size,
                    plans,
                    libraries=(),
                    own_choice=False,
                )

    def _table(
        self, claim: str, session: Session, shape: str, kind: CollectiveKind, size: int, plans: Mapping[str, Plan],
        libraries: Sequence[str] | None = None, own_choice: bool = True,
    ) -> Table:  # fmt: skip
        rounds = FEW_ROUNDS if size >= LONG_BYTES else MANY_ROUNDS
        rows = session.measure(
            kind, size, plans, rounds,
            own_choice=own_choice and kind in IN_PLACE,
            libraries=self._libraries if libraries is None else libraries,
        )  # fmt: skip
        return Table(claim, shape, kind, size, tuple(rows), self._near[shape])

    def _wire_table(self, session: Session, shape: str, levels: Sequence[int] | None = None) -> Table:
        nodes, local = levels or LEVELS[shape]
        plans = {RING: plan_of("allreduce_ring", nodes * local)}
        if local > 1:
            plans[HIERARCHICAL] = plan_of("allreduce_hierarchical", nodes * local, **rings((nodes, local)))
        rows = session.measure(CollectiveKind.ALLREDUCE, WIRE_BYTES, plans, FEW_ROUNDS)
        part = rows[0].wire_part
        self._near[shape] = part is not None and part >= NEAR_THE_WIRE and rows[0].counts
        return Table("wire", shape, CollectiveKind.ALLREDUCE, WIRE_BYTES, tuple(rows), self._near[shape])

    def _look_at_wire(self, session: Session, shape: str, levels: Sequence[int] | None = None) -> None:
        if shape not in self._near:
            self._wire_table(session, shape, levels)


CLAIMS: Mapping[str, Callable[[Bench], Iterator[Table]]] = {
    "wire": Bench.wire,
    "allreduce": Bench.allreduce,
    "alltoall": Bench.alltoall,
    "alltonext": Bench.alltonext,
    "passes": Bench.passes,
    "slots": Bench.slots,
    "instances": Bench.instances,
}


ASKED: Sequence[tuple[str, str, str, str, float, range]] = (
    ("allreduce", "2x4", RING, HIERARCHICAL, 1.5, range(4 * MIB, 1 << 40)),
    ("alltonext", "rails-2x4", "plain sends", "over all rails", 3.5, range(MIB, 1 << 40)),
    ("alltoall", "4x4, 2 ms", "all pairs", "two-step", 1.2, range(16 * 64 * KIB + 1)),
    ("allreduce", "2x4", LABELS["gloo"], OWN_CHOICE, 1.5, range(64 * KIB, 1 << 40)),
)
"""Part, network, the slower, the faster, how many times as fast it should be, and at which sizes."""


def markdown(table: Table) -> str:
    """A table for people."""
    lines = [
        f"**{table.shape}, {table.kind}, {format_bytes(table.num_bytes)} a rank**\n",
        "| who | time | spread | of the wire | x | cores busy | |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    first = table.rows[0].seconds
    for row in table.rows:
        part = "" if row.wire_part is None else f"{100 * row.wire_part:.0f} %"
        word = "" if table.counts(row) else "CPU-bound"
        lines.append(
            f"| {row.label} | {format_seconds(float(f'{row.seconds:.3g}'))} | ±{100 * row.spread:.0f} % | {part} | "
            f"{first / row.seconds:.2f} | {100 * row.busy:.0f} % | {word} |"
        )
    return "\n".join(lines) + "\n"


def claims(tables: Sequence[Table]) -> Iterator[str]:
    """What the tables say about each claim, and what was asked for."""
    for table in (each for each in tables if each.claim == "wire"):
        for row in table.rows:
            least = 0.9 if row.label == RING else 0.85
            assert row.wire_part is not None
            verdict = "CPU-bound" if not row.counts else "met" if row.wire_part >= least else "missed"
            yield f"{table.shape}, 8MiB, {row.label}: {100 * row.wire_part:.1f} % of the wire (asked {100 * least:.0f} %): {verdict}"
    for claim, shape, slow, fast, least, sizes in ASKED:
        for table in tables:
            if (table.claim, table.shape) != (claim, shape) or table.num_bytes not in sizes:
                continue
            ratio = table.ratio(slow, fast)
            if ratio is None:
                said = "not measured, or CPU-bound"
            else:
                said = f"{ratio:.2f} times as fast (asked {least:g}): {'met' if ratio >= least else 'missed'}"
            yield f"{shape}, {table.kind} {format_bytes(table.num_bytes)}, {fast} against {slow}: {said}"


def main() -> int:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(CLAIMS), help=f"of {', '.join(CLAIMS)}")
    parser.add_argument(
        "--quick", action="store_true", help="a small part of everything, in about two minutes"
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--page", type=Path, help="write the tables to this page")
    options = parser.parse_args()
    problem = obstacle() or next(
        (f"there is no part {name}" for name in options.only.split(",") if name not in CLAIMS), None
    )
    if problem is not None:
        print(f"lab_collectives: {problem}", file=sys.stderr)
        return 2
    begin = time.monotonic()
    print(describe_machine())
    absent = {name: missing_library(name, ELEMENT) for name in LABELS}
    for sentence in filter(None, absent.values()):
        print(f"note: {sentence}")
    bench = Bench([name for name, reason in absent.items() if reason is None], quick=options.quick)
    tables: list[Table] = []
    for name in options.only.split(","):
        try:
            for table in CLAIMS[name](bench):
                tables.append(table)
                print(f"\n{markdown(table)}", flush=True)
        except HemiolaError as error:
            print(f"{name} ended early: {error}", file=sys.stderr)
            return 1
    minutes = (time.monotonic() - begin) / 60
    verdicts = list(claims(tables))
    print("\n".join(verdicts), f"\n{minutes:.1f} minutes")
    if options.json:
        written = {
            "machine": describe_machine(),
            "minutes": minutes,
            "tables": [asdict(table) for table in tables],
        }
        options.json.write_text(json.dumps(written, indent=1) + "\n")
    if options.page:
        options.page.write_text(page(tables, verdicts, minutes))
    return 0


def page(tables: Sequence[Table], verdicts: Sequence[str], minutes: float) -> str:
    """The tables as a page of the documentation."""
    head = (
        "# Measured in the lab\n\n"
        f"Made by `python benchmarks/lab_collectives.py --page docs/results.md` in {minutes:.0f} minutes on\n"
        f"{describe_machine()}.\n\n"
        "Every time is the median of rounds in which all of a table took turns, with the distance of the quickest or\n"
        "slowest round. *Of the wire*: the time that the plan's bytes need on its busiest cable, divided by what was\n"
        "measured. *x*: how many times as fast as the first row. *CPU-bound* rows say more about two cores than about the\n"
        "network and are not used.\n"
    )
    points = "".join(f"- {verdict}\n" for verdict in verdicts)
    parts = [f"## {name}\n\n{(CLAIMS[name].__doc__ or '').strip()}\n\n" + "\n".join(
        markdown(table) for table in tables if table.claim == name
    ) for name in CLAIMS if any(table.claim == name for table in tables)]  # fmt: skip
    return f"{head}\n## Claims\n\n{points}\n" + "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
