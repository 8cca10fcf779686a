"""How far the simulator is from what really happens, on networks and collectives that it was not fitted to.

    python benchmarks/simulator_accuracy.py [--only lab,host] [--quick] [--json accuracy.json]

lab: five constants of our runtime are fitted to all-reduces on the lab's 2x4 alone and frozen. Then other shapes,
all-gather, all-to-all, all-to-next and two groups at once are predicted and measured. A measurement during which more
than 60 % of the cores were busy is not used. It takes root (network namespaces).
host: four constants are fitted to all-reduces and all-to-alls of 2, 4 and 8 ranks on this machine, measured as hemiola bench does;
3 and 6 ranks, and all-gathers of 2 to 8, are predicted. Whole it takes about ten minutes, and wants a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hemiola import _core
from hemiola.collectives import CollectiveKind
from hemiola.errors import HemiolaError, LabError
from hemiola.integrations.bench.backend import IN_PLACE, Task
from hemiola.integrations.bench.backend_processes import BackendProcesses
from hemiola.integrations.bench.bound import measure_rates
from hemiola.integrations.bench.turns import take_turns
from hemiola.ir.plan import Plan
from hemiola.lab.library_plan import plan_of, rings
from hemiola.lab.namespaces import obstacle
from hemiola.lab.session import OWN, Session, open_session
from hemiola.report.machine import describe_machine
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.simulator.calibrate.fit_host import Cores, HostRun, fit_host
from hemiola.simulator.calibrate.fit_runtime import Observation, RuntimeConstants, fit_runtime
from hemiola.simulator.timeline import Load
from hemiola.topology.system import System
from hemiola.tuning.library_plans import LibraryPlans
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
HOST_SIZES = tuple((64 * KIB) << (2 * power) for power in range(6))
HOST_SWEEPS, HOST_ROUNDS = 3, 3
"""Over all numbers of ranks, and of each of them: the speed of a machine changes from minute to minute."""
ELEMENT_BYTES = 4
FITTED_RANKS, OTHER_RANKS = (2, 4, 8), (3, 6)
FITTED_KINDS = (CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL)
OTHER_KINDS = (CollectiveKind.ALLGATHER,)
HOST_TIMEOUT = 120.0
HOST_LIMIT = 0.2


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
    session: Session, part: str, shape: str, kind: CollectiveKind, size: int, plans: Mapping[str, Plan]
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
            yield from cases(session, "fitted", FITTED_SHAPE, CollectiveKind.ALLREDUCE, size, plans)


def other_shapes(sizes: tuple[int, ...], shapes: tuple[str, ...]) -> Iterator[Case]:
    """All-reduces on other networks."""
    for shape in shapes:
        with open_session(shape) as session:
            for size in sizes:
                plans = allreduces(LEVELS[shape], many=shape in ("4x2", "4x4"))
                yield from cases(session, "other shapes", shape, CollectiveKind.ALLREDUCE, size, plans)


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
                yield from cases(session, "other collectives", shape, CollectiveKind.ALLGATHER, size, gathers)
                yield from cases(
                    session, "other collectives", shape, CollectiveKind.ALLTOALL, size, exchanges
                )
    shape = "rails-2x4"
    nexts = {
        "plain sends": plan_of("alltonext_direct", 8),
        "over all rails": plan_of("alltonext_scattered", 8, levels=LEVELS[shape]),
    }
    with open_session(shape) as session:
        for size in sizes:
            yield from cases(session, "other collectives", shape, CollectiveKind.ALLTONEXT, size // 2, nexts)


def groups(sizes: tuple[int, ...], shapes: tuple[str, ...]) -> Iterator[Case]:
    """Two groups of every second rank that work at once."""
    for shape in shapes:
        with open_session(shape, libraries=(GROUPS,)) as session:
            system = session.lab.system
            for size in sizes:
                plans = {"two rings": plan_of("allreduce_ring", system.num_ranks // NUM_GROUPS)}
                for measured in session.measure_groups(CollectiveKind.ALLREDUCE, size, plans, ROUNDS, GROUPS):
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


def judge_lab(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    """Fit to one shape, freeze, predict the others."""
    if (problem := obstacle()) is not None:
        raise LabError(problem)
    sizes = (MIB,) if quick else SIZES
    others = ("4x2",) if quick else tuple(shape for shape in LEVELS if shape != FITTED_SHAPE)
    known = list(fitted(SIZES))
    usable = [case.observation for case in known if case.counts]
    if len(usable) < len(known) / 2:
        raise LabError(
            "most of the measurements to be fitted are CPU-bound, and what is fitted to them says nothing; "
            "run it while the machine does nothing else"
        )
    constants = fit_runtime(usable)
    print(f"fitted to {len(usable)} all-reduces on {FITTED_SHAPE}: {constants}")
    print(f"  {'':<58} {'measured':>8} {'predicted':>8}   error")
    rows: list[Row] = []
    for part in (known, other_shapes(sizes, others), other_collectives(sizes), groups(sizes, ("2x4", "4x2"))):
        for case in part:
            rows.append(case.row(constants))
            print(show(rows[-1]), flush=True)
    return asdict(constants), rows


def host_runs(sizes: Sequence[int]) -> list[HostRun]:
    """All numbers of ranks, collectives and sizes on this machine, several times over; the median of each."""
    found: dict[tuple[int, CollectiveKind, int], list[float]] = {}
    for _ in range(HOST_SWEEPS):
        for num_ranks in sorted((*FITTED_RANKS, *OTHER_RANKS)):
            with BackendProcesses(OWN, num_ranks, HOST_TIMEOUT) as backend:
                backend.wait_for_ranks()
                for kind in (*FITTED_KINDS, *OTHER_KINDS):
                    for size in (one - one % (num_ranks * ELEMENT_BYTES) for one in sizes):
                        task = Task(kind, num_ranks, size, "float32")
                        times = take_turns([backend], task, HOST_ROUNDS)[OWN]
                        found.setdefault((num_ranks, kind, size), []).append(times.median)
    plans, runs = LibraryPlans(), []
    for (num_ranks, kind, size), medians in found.items():
        request = PlanRequest(kind, num_ranks, (0,) * num_ranks, size, in_place=IN_PLACE[kind])
        runs.append(HostRun(plans.choose(request).plan, size, statistics.median(medians)))
    return runs


def judge_host(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    """Fit to some numbers of ranks and collectives on this machine, freeze, predict others."""
    sizes = HOST_SIZES[::2] if quick else HOST_SIZES
    rates = measure_rates("float32")
    cores = Cores(rates.num_cores, rates.copy_bytes_per_second, _core.shared_cache_bytes())
    runs = host_runs(sizes)
    known = [
        run for run in runs if run.plan.num_ranks in FITTED_RANKS and run.plan.collective.kind in FITTED_KINDS
    ]
    constants = fit_host(known, cores)
    print(f"fitted to {len(known)} all-reduces and all-to-alls of 2, 4 and 8 ranks: {constants}, {cores}")
    print(f"  {'':<58} {'measured':>8} {'predicted':>8}   error")
    rows = []
    for run in runs:
        kind, num_ranks = run.plan.collective.kind, run.plan.num_ranks
        part = "fitted" if run in known else f"{num_ranks} ranks"
        predicted = constants.predict(run, cores)
        rows.append(
            Row(
                part,
                f"{num_ranks} ranks",
                kind,
                run.plan.name,
                run.num_bytes,
                run.seconds,
                predicted,
                0.0,
                True,
            )
        )
        print(show(rows[-1]), flush=True)
    return {**asdict(constants), **asdict(cores)}, rows


def verdict(rows: Sequence[Row], limit: float) -> None:
    """How good the predictions were of what was not fitted."""
    for name in dict.fromkeys(row.part for row in rows):
        errors = [row.error for row in rows if row.part == name and row.counts]
        if errors:
            print(
                f"{name}: median error {100 * statistics.median(errors):.1f} % of {len(errors)}, worst {100 * max(errors):.0f} %"
            )
    errors = [row.error for row in rows if row.part != "fitted" and row.counts]
    if not errors:
        print("no measurement counts: the machine was too busy")
        return
    median = statistics.median(errors)
    word = "met" if median <= limit else "missed"
    print(
        f"all that was not fitted: median error {100 * median:.1f} % of {len(errors)} (asked {100 * limit:.0f} %): {word}\n"
    )


def main() -> int:
    """Fit, freeze, predict."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="lab,host", help="lab, host, or both")
    parser.add_argument("--quick", action="store_true", help="few sizes and shapes")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    parts = {"lab": (judge_lab, LIMIT), "host": (judge_host, HOST_LIMIT)}
    print(describe_machine())
    written: dict[str, Any] = {"machine": describe_machine()}
    for name in options.only.split(","):
        if name not in parts:
            raise LabError(f"there is no part {name!r}; there are {', '.join(parts)}")
        judge, limit = parts[name]
        constants, rows = judge(options.quick)
        verdict(rows, limit)
        written[name] = {"constants": constants, "rows": [asdict(row) for row in rows]}
    if options.json:
        options.json.write_text(json.dumps(written, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HemiolaError as error:
        sys.exit(f"simulator_accuracy: {error}")
