"""How near GPU times are to public measurements: plans on MI300X, NCCL on H200 and A100, NCCL and MSCCL on NDv4, and what tune picks.

Needs ../shared. Constants are fitted to one part of the rows and judged on the other: on MI300X to the plans with even numbers, sorted by
name per protocol; in tables to every second row. Presets as they are, which no row of these tables made, are judged beside them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from hemiola.collectives import CollectiveKind
from hemiola.cost.calibrate.calibrate import constants_of
from hemiola.cost.calibrate.fit_replay import fit_replay
from hemiola.cost.calibrate.measured_run import MeasuredRun
from hemiola.ir.formats import read_plan
from hemiola.ir.plan import Plan, Protocol
from hemiola.topology.presets import load_system
from hemiola.topology.system import System

DATA = Path(__file__).parents[2] / "shared" / "data"
MI300X, BUSBW, XML = DATA / "mi300x-runs", DATA / "busbw", DATA / "msccl-xml"
ALLREDUCE = CollectiveKind.ALLREDUCE
LARGE, MEDIUM = 64 << 20, 1 << 20
LL_RING, LL128_RING = 2_129_920, 22_806_528
"""Up to which size msccl-tools registers its ring on NDv4 with each protocol; from then on NCCL runs."""
ALLPAIRS = 458_752
"""Up to which size it registers all-pairs with LL; with 2 instances up to 82,944 bytes, which are replayed with 4 too."""
GAIN_TOLERANCE = 0.15


@dataclass(frozen=True)
class Errors:
    """Of rows, as parts of the measured times."""

    name: str
    sizes: npt.NDArray[np.int64]
    errors: npt.NDArray[np.float64]

    @staticmethod
    def of(name: str, runs: Sequence[MeasuredRun], system: System) -> Errors:
        found = [abs(run.predict(system) / run.seconds - 1) for run in runs]
        return Errors(name, np.array([run.num_bytes for run in runs]), np.array(found))

    def part(self, least: int, most: float = float("inf")) -> npt.NDArray[np.float64]:
        return self.errors[(self.sizes >= least) & (self.sizes < most)]

    def fields(self) -> dict[str, object]:
        large, medium, small = self.part(LARGE), self.part(MEDIUM), self.part(0, MEDIUM)
        return {
            "what": self.name,
            "rows": len(self.errors),
            "mean": float(self.errors.mean()),
            **({"mean_from_64MiB": float(large.mean())} if len(large) else {}),
            **({"mean_from_1MiB": float(medium.mean())} if len(medium) else {}),
            **({"median_from_1MiB": float(np.median(medium))} if len(medium) else {}),
            **({"within_25_percent_from_1MiB": float((medium <= 0.25).mean())} if len(medium) else {}),
            **({"median_below_1MiB": float(np.median(small))} if len(small) else {}),
        }


def mi300x_plans() -> dict[str, Plan]:
    return {path.stem: read_plan(path) for path in sorted(MI300X.glob("*.xml"))}


def mi300x_rows(plans: dict[str, Plan]) -> dict[str, list[MeasuredRun]]:
    rows: dict[str, list[MeasuredRun]] = {}
    with (MI300X / "times.csv").open() as table:
        for row in csv.DictReader(table):
            plan = plans[row["plan"]]
            run = MeasuredRun(
                plan.collective.kind, 8, int(row["bytes"]), float(row["seconds"]), plan, row["plan"]
            )
            rows.setdefault(row["plan"], []).append(run)
    return rows


def halves(plans: dict[str, Plan]) -> tuple[list[str], list[str]]:
    """Plans with even and with odd numbers, sorted by name per protocol."""
    even, odd = [], []
    for protocol in Protocol:
        names = sorted(name for name, plan in plans.items() if plan.protocol is protocol)
        even += names[::2]
        odd += names[1::2]
    return even, odd


def fitted(runs: Sequence[MeasuredRun], every: Sequence[MeasuredRun], system: System) -> tuple[System, int]:
    """A system fitted to some of the rows, with at most one constant for four of all."""
    constants = constants_of(every, system)
    return fit_replay(runs, system, constants), len(constants)


def judge_mi300x(results: list[dict[str, object]]) -> System:
    plans = mi300x_plans()
    rows = mi300x_rows(plans)
    even, odd = halves(plans)
    preset = load_system("mi300x")
    fit_rows = [run for name in even for run in rows[name]]
    system, num_constants = fitted(fit_rows, fit_rows, preset)
    judged = [run for name in odd for run in rows[name]]
    for protocol in (None, *Protocol):
        some = [run for run in judged if protocol in (None, run.plan.protocol if run.plan else None)]
        name = f"mi300x, {protocol.value if protocol else 'all protocols'}, plans not fitted"
        results.append({**Errors.of(name, some, system).fields(), "constants": num_constants})
    every = [run for one in rows.values() for run in one]
    results.append(Errors.of("mi300x, all plans, preset as it is", every, preset).fields())
    results.append(judge_choice([run for name in odd for run in rows[name]], system))
    return system


def judge_choice(runs: Sequence[MeasuredRun], system: System) -> dict[str, object]:
    """At every size and collective, how much slower the plan with the shortest prediction was than the fastest."""
    worst, where, num = 1.0, "", 0
    for kind, size in sorted({(run.kind, run.num_bytes) for run in runs if run.num_bytes >= 64 << 10}):
        offered = [run for run in runs if (run.kind, run.num_bytes) == (kind, size)]
        chosen = min(offered, key=lambda run: run.predict(system))
        ratio = chosen.seconds / min(run.seconds for run in offered)
        num += 1
        if ratio > worst:
            worst, where = ratio, f"{kind} of {size} bytes: {chosen.name}"
    return {"what": "mi300x, the plan that is predicted fastest among those not fitted", "sizes": num,
            "slowest_over_best": worst, "where": where}  # fmt: skip


def table(name: str) -> list[tuple[int, dict[str, str]]]:
    with (BUSBW / name).open() as text:
        return [(int(row.get("size_bytes") or row["bytes"]), row) for row in csv.DictReader(text)]


def judge_table(name: str, system_name: str, results: list[dict[str, object]]) -> None:
    runs = []
    for size, row in table(name):
        seconds = float(row["time_us"]) * 1e-6 if "time_us" in row else size / float(row["algbw_GBps"]) / 1e9
        runs.append(MeasuredRun(ALLREDUCE, 8, size, seconds))
    preset = load_system(system_name)
    for first in (0, 1):
        system, num = fitted(runs[first::2], runs, preset)
        title = f"{system_name}, NCCL, fitted to rows {first + 1}, {first + 3}, ..."
        results.append({**Errors.of(f"{title}: all rows", runs, system).fields(), "constants": num})
        results.append(
            {**Errors.of(f"{title}: the others", runs[1 - first :: 2], system).fields(), "constants": num}
        )
    results.append(Errors.of(f"{system_name}, NCCL, preset as it is", runs, preset).fields())


def ndv4_runs() -> tuple[list[MeasuredRun], list[MeasuredRun]]:
    """NCCL's rows, and MSCCL's with the plans that msccl-tools registers for this machine."""
    four = read_plan(XML / "rccl-allreduce-allpairs-8n-ll-32tb.xml")
    ring = replace(read_plan(XML / "azure-ndv4-r48ll.xml"), min_bytes=0, max_bytes=0)
    plans = [
        (ALLPAIRS, replace(four, min_bytes=0, max_bytes=0)),
        (LL_RING, ring),
        (LL128_RING, replace(ring, protocol=Protocol.LL128)),
    ]
    nccl, msccl = [], []
    for size, row in table("ndv4_a100x8_allreduce_inplace.csv"):
        plan = next((plan for most, plan in plans if size <= most), None)
        nccl.append(MeasuredRun(ALLREDUCE, 8, size, float(row["nccl_us"]) * 1e-6))
        msccl.append(
            MeasuredRun(ALLREDUCE, 8, size, float(row["msccl_us"]) * 1e-6, plan,
                        "" if plan is None else plan.name, "" if plan is None else "msccl")
        )  # fmt: skip
    return nccl, msccl


def judge_ndv4(results: list[dict[str, object]]) -> None:
    nccl, msccl = ndv4_runs()
    preset = load_system("azure-ndv4")
    for first in (0, 1):
        system, num = fitted([*nccl[first::2], *msccl[first::2]], [*nccl, *msccl], preset)
        title = f"azure-ndv4, fitted to rows {first + 1}, {first + 3}, ..."
        for name, runs in (("NCCL", nccl), ("MSCCL", msccl)):
            results.append({**Errors.of(f"{title}: {name}", runs, system).fields(), "constants": num})
        gains = [
            (one.seconds / other.seconds, one.predict(system) / other.predict(system))
            for one, other in zip(nccl, msccl, strict=True)
        ]
        near = sum(abs(measured - simulated) <= GAIN_TOLERANCE for measured, simulated in gains)
        results.append({"what": f"{title}: gain of MSCCL within {GAIN_TOLERANCE}", "rows": near, "of": len(gains),
                        "gains": " ".join(f"{m:.2f}/{s:.2f}" for m, s in gains)})  # fmt: skip
    for name, runs in (("NCCL", nccl), ("MSCCL", msccl)):
        results.append(Errors.of(f"azure-ndv4, {name}, preset as it is", runs, preset).fields())


@click.command()
@click.option("--json", "as_json", is_flag=True)
@click.option("--only", default="", help="Of mi300x, h200, a100 and ndv4, those that are judged.")
def main(as_json: bool, only: str) -> None:
    """Errors by table, protocol and size."""
    results: list[dict[str, object]] = []
    if not only or "mi300x" in only:
        judge_mi300x(results)
    if not only or "h200" in only:
        judge_table("h200x8_allreduce.csv", "hgx-h200", results)
    if not only or "a100" in only:
        judge_table("a100x8_allreduce.csv", "dgx-a100", results)
    if not only or "ndv4" in only:
        judge_ndv4(results)
    if as_json:
        print(json.dumps({"rows": results}))
        return
    for row in results:
        words = [
            f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items()
        ]
        print("; ".join(words).removeprefix("what "))


if __name__ == "__main__":
    main()
