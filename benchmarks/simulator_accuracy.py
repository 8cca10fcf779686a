"""How far the simulator is from what really happens, on networks and collectives that it was not fitted to.

    python benchmarks/simulator_accuracy.py [--quick] [--json accuracy.json]

Five constants of our runtime are fitted to all-reduces on the lab's 2x4 alone and frozen. Then other shapes, all-gather,
all-to-all, all-to-next and two groups at once are predicted and measured. A measurement during which more than 60 % of
the cores were busy is not used. It takes root (network namespaces) and about eight minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.errors import HemiolaError
from hemiola.integrations.bench.contestant import IN_PLACE
from hemiola.ir.plan import Plan
from hemiola.lab.namespaces import obstacle
from hemiola.lab.session import Session, open_session
from hemiola.report.machine import describe_machine
from hemiola.simulator.fit_runtime import Observation, RuntimeConstants, fit_runtime
from hemiola.simulator.timeline import Load
from hemiola.topology.system import System
from hemiola.units import format_bytes, format_seconds

KIB, MIB = 1 << 10, 1 << 20
FITTED_SHAPE = "2x4"
LEVELS: Mapping[str, tuple[int, int]] = {
    "2x4": (2, 4), "4x2": (4, 2), "4x4": (4, 4), "2racks-2x2": (4, 2), "rails-2x4": (2, 4), "uneven-4x2": (4, 2),
    "wan-2x1": (2, 1),
}  # fmt: skip
SIZES = (256 * KIB, MIB, 4 * MIB)
ROUNDS = 3
NUM_GROUPS = 2
GROUPS = f"groups:{NUM_GROUPS}"
LIMIT = 0.15


@dataclass(frozen=True, slots=True)
class Row:
    """One plan at one size: measured, predicted."""

    part: str
    shape: str
    kind: str
    label: str
    num_bytes: int
    seconds: float
    predicted: float
    busy: float
    counts: bool

    @property
    def error(self) -> float:
        """Of the prediction, as a part of what was measured."""
        return abs(self.predicted / self.seconds - 1)


@dataclass(frozen=True, slots=True)
class Case:
    """What was measured, before anything is predicted."""

    part: str
    shape: str
    label: str
    observation: Observation
    busy: float
    counts: bool

    def row(self, constants: RuntimeConstants) -> Row:
        load = self.observation.loads[0]
        predicted = constants.predict(self.observation.loads, self.observation.system)
        return Row(
            self.part, self.shape, load.plan.collective.kind, self.label, int(load.num_bytes),
            self.observation.seconds, predicted, self.busy, self.counts,
        )  # fmt: skip


def plan_of(algorithm: str, num_ranks: int, **parameters: Any) -> Plan:
    """A plan of the library, as the collective is mostly called."""
    found = ALGORITHMS[algorithm]
    return compile_program(
        found.build(ranks=num_ranks, in_place=IN_PLACE.get(found.kind, False), **parameters)
    ).plan


def rings(levels: tuple[int, int]) -> dict[str, Any]:
    """Both levels as rings."""
    return {"levels": levels, "inside": "ring", "across": "ring"}


def allreduces(levels: tuple[int, int], *, many: bool) -> dict[str, Plan]:
    """The ring and the hierarchical one, and more where asked."""
    num_ranks = levels[0] * levels[1]
    plans = {"ring": plan_of("allreduce_ring", num_ranks)}
    if levels[1] > 1:
        plans["hierarchical"] = plan_of("allreduce_hierarchical", num_ranks, **rings(levels))
    if many:
        plans["double tree"] = plan_of("allreduce_double_binary_tree", num_ranks)
        plans["halving-doubling"] = plan_of("allreduce_halving_doubling", num_ranks)
    return plans


def cases(
    session: Session, part: str, shape: str, kind: str, size: int, plans: Mapping[str, Plan]
) -> Iterator[Case]:
    """Measure some plans."""
    system = session.lab.system
    for measured in session.measure(kind, size, plans, ROUNDS):
        observation = Observation(system, (Load(plans[measured.label], size),), measured.seconds)
        yield Case(part, shape, measured.label, observation, measured.busy, measured.counts)


def fitted(sizes: tuple[int, ...]) -> Iterator[Case]:
    """What the constants are fitted to."""
    with open_session(FITTED_SHAPE) as session:
        for size in sizes:
            plans = allreduces(LEVELS[FITTED_SHAPE], many=True)
            yield from cases(session, "fitted", FITTED_SHAPE, "allreduce", size, plans)


def other_shapes(sizes: tuple[int, ...], shapes: tuple[str, ...]) -> Iterator[Case]:
    """All-reduces on other networks."""
    for shape in shapes:
        with open_session(shape) as session:
            for size in sizes:
                plans = allreduces(LEVELS[shape], many=shape in ("4x2", "4x4"))
                yield from cases(session, "other shapes", shape, "allreduce", size, plans)


def other_collectives(sizes: tuple[int, ...]) -> Iterator[Case]:
    """All-gather, all-to-all and all-to-next, with as many bytes on the wire as the all-reduces."""
    for shape in ("2x4", "4x2"):
        levels = LEVELS[shape]
        num_ranks = levels[0] * levels[1]
        gathers = {
            "ring": plan_of("allgather_ring", num_ranks),
            "hierarchical": plan_of("allgather_hierarchical", num_ranks, **rings(levels)),
        }
        exchanges = {
            "all pairs": plan_of("alltoall_allpairs", num_ranks),
            "two-step": plan_of("alltoall_two_step", num_ranks, levels=levels),
        }
        with open_session(shape) as session:
            for size in sizes:
                yield from cases(session, "other collectives", shape, "allgather", size // num_ranks, gathers)
                yield from cases(session, "other collectives", shape, "alltoall", size, exchanges)
    shape = "rails-2x4"
    nexts = {
        "plain sends": plan_of("alltonext_direct", 8),
        "over all rails": plan_of("alltonext_scattered", 8, levels=LEVELS[shape]),
    }
    with open_session(shape) as session:
        for size in sizes:
            yield from cases(session, "other collectives", shape, "alltonext", size // 2, nexts)


def groups(sizes: tuple[int, ...], shapes: tuple[str, ...]) -> Iterator[Case]:
    """Two groups of every second rank that work at once."""
    for shape in shapes:
        with open_session(shape, libraries=(GROUPS,)) as session:
            system = session.lab.system
            for size in sizes:
                plans = {"two rings": plan_of("allreduce_ring", system.num_ranks // NUM_GROUPS)}
                for measured in session.measure_groups("allreduce", size, plans, ROUNDS, GROUPS):
                    loads = tuple(
                        _group(plans[measured.label], size, system, group) for group in range(NUM_GROUPS)
                    )
                    observation = Observation(system, loads, measured.seconds)
                    yield Case(
                        "two groups", shape, measured.label, observation, measured.busy, measured.counts
                    )


def _group(plan: Plan, size: int, system: System, group: int) -> Load:
    return Load(plan, size, tuple(range(group, system.num_ranks, NUM_GROUPS)))


def show(row: Row) -> str:
    """A row for people."""
    words = f"{row.shape}, {row.kind}, {row.label}, {format_bytes(row.num_bytes)}"
    note = "" if row.counts else f"  CPU-bound ({100 * row.busy:.0f} % busy), not used"
    times = (
        f"{format_seconds(float(f'{row.seconds:.3g}')):>8} {format_seconds(float(f'{row.predicted:.3g}')):>8}"
    )
    return f"  {words:<58} {times}  {100 * (row.predicted / row.seconds - 1):+6.1f} %{note}"


def main() -> int:
    """Fit, freeze, predict."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one size and few shapes")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    if (problem := obstacle()) is not None:
        print(f"simulator_accuracy: {problem}", file=sys.stderr)
        return 2
    sizes = (MIB,) if options.quick else SIZES
    others = ("4x2",) if options.quick else tuple(shape for shape in LEVELS if shape != FITTED_SHAPE)
    print(describe_machine())
    known = list(fitted(SIZES))
    usable = [case.observation for case in known if case.counts]
    if len(usable) < len(known) / 2:
        print(
            "the machine is too busy: most of the measurements to be fitted are CPU-bound; using all of them"
        )
        usable = [case.observation for case in known]
    constants = fit_runtime(usable)
    print(f"fitted to {len(usable)} all-reduces on {FITTED_SHAPE}: {constants}")
    print(f"  {'':<58} {'measured':>8} {'predicted':>8}   error")
    rows: list[Row] = []
    for part in (known, other_shapes(sizes, others), other_collectives(sizes), groups(sizes, ("2x4", "4x2"))):
        for case in part:
            rows.append(case.row(constants))
            print(show(rows[-1]), flush=True)
    held_out = [row for row in rows if row.part != "fitted"]
    for name in dict.fromkeys(row.part for row in rows):
        errors = [row.error for row in rows if row.part == name and row.counts]
        if errors:
            print(
                f"{name}: median error {100 * statistics.median(errors):.1f} % of {len(errors)}, worst {100 * max(errors):.0f} %"
            )
    errors = [row.error for row in held_out if row.counts]
    if errors:
        median = statistics.median(errors)
        verdict = "met" if median <= LIMIT else "missed"
        print(
            f"all that was not fitted: median error {100 * median:.1f} % of {len(errors)} (asked {100 * LIMIT:.0f} %): {verdict}"
        )
    else:
        print("no measurement counts: the machine was too busy")
    if options.json:
        written = {
            "machine": describe_machine(),
            "constants": asdict(constants),
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(written, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HemiolaError as error:
        sys.exit(f"simulator_accuracy: {error}")
