"""measured_runs: rows of measurements with the plans that ran: files beside the table, or what the runtime takes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from hemiola.collectives import CollectiveKind
from hemiola.cost.calibrate.measured_run import MeasuredRun
from hemiola.cost.vendor.vendor_choice import LIBRARY_OF
from hemiola.errors import FormatError
from hemiola.ir.formats import read_plan
from hemiola.ir.plan import Plan
from hemiola.ir.selection import Runtime, SelectionRequest, explain_selection
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.topology.parse.nccl_tests import Measurement
from hemiola.topology.system import System
from hemiola.tuning.plan_search import LIBRARY

SUFFIXES = ("", ".xml", ".plan")
SIZE_RULES = ("divisible", "size")
"""Of a runtime's rules those that depend on the size of a call."""


def measured_runs(
    rows: Sequence[Measurement], table: Path, system: System
) -> tuple[list[MeasuredRun], list[str]]:
    """The rows as runs, and a note on those that were left out because the runtime did not use the file."""
    runs, unused = [], 0
    for row in rows:
        run = _run(row, table, system)
        if run.plan is not None and row.plan and not _is_used(run, system):
            unused += 1
            continue
        runs.append(run)
    notes = [
        f"{unused} rows of {table.name} were left out: {system.runtime} does not use the file at their size."
    ]
    return runs, notes if unused else []


def _run(row: Measurement, table: Path, system: System) -> MeasuredRun:
    kind, ranks = CollectiveKind(row.kind), row.num_ranks or system.num_ranks
    if ranks > system.num_ranks:
        raise FormatError(
            f"{table}: a row was measured on {ranks} ranks, but system {system.name!r} has {system.num_ranks} devices;"
            " take a larger system"
        )
    run = MeasuredRun(
        kind, ranks, row.num_bytes, row.seconds, name=row.plan, in_place=row.in_place is not False
    )
    if row.plan:
        return replace(run, plan=_read(table.parent / row.plan))
    if system.runtime in LIBRARY_OF:
        return run
    hosts = tuple(system.host_of_rank[:ranks])
    peer = ranks - 1 if kind is CollectiveKind.SENDRECV else 0
    asked = PlanRequest(
        kind, ranks, hosts, row.num_bytes, kind.facts.can_be_in_place and run.in_place, peer=peer
    )
    return replace(run, plan=LIBRARY.choose(asked).plan)


@lru_cache(maxsize=256)
def _read(where: Path) -> Plan:
    for suffix in SUFFIXES:
        if (path := where.with_name(where.name + suffix)).is_file():
            return read_plan(path)
    raise FormatError(
        f"{where}: there is no such plan; it was looked for with {', '.join(SUFFIXES[1:])} and without"
    )


def _is_used(run: MeasuredRun, system: System) -> bool:
    """Whether the runtime takes the file at this size, by those of its rules that depend on it."""
    if system.runtime not in ("rccl", "msccl") or run.plan is None:
        return True
    asked = SelectionRequest(
        runtime=Runtime(system.runtime),
        num_ranks=run.num_ranks,
        bytes=run.num_bytes,
        in_place=run.plan.collective.in_place,
    )
    return not any(rule.name in SIZE_RULES for rule in explain_selection(run.plan, asked).obstacles)
