"""What hemiola compile says about a plan that it made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hemiola.cli.output import (
    make_table,
    plan_fields,
    plan_line,
    print_facts,
    print_table,
    verdict_facts,
    verdict_fields,
)
from hemiola.compiler.compile import Compiled, CompileReport
from hemiola.compiler.pipeline import PassRecord
from hemiola.ir.targets import Target
from hemiola.units import format_bytes


def compiled_fields(compiled: Compiled, path: Path | None, target: Target) -> dict[str, Any]:
    """A plan, its passes and its verdict as JSON."""
    return {
        **plan_fields(compiled.plan),
        "passes": [_pass_fields(record) for record in compiled.report.passes],
        "num_fused": compiled.report.fused,
        "undone": compiled.report.undone,
        "num_left_apart": compiled.report.left_apart,
        "num_fused_by_depth": compiled.report.fused_by_depth,
        "verdict": verdict_fields(compiled.verdict),
        "target": target.name,
        "file": None if path is None else str(path),
    }


def print_compiled(compiled: Compiled, path: Path | None, target: Target) -> None:
    """The same for people."""
    plan, report = compiled.plan, compiled.report
    click.echo(f"{plan.name}: {plan_line(plan)}")
    columns = ("ms", "rows", "fused", "waits")
    table = make_table("pass", *columns, numbers=columns)
    for record in report.passes:
        cells = ("" if n is None else str(n) for n in (record.rows, record.fused, record.waits))
        name = f"{record.name} (off)" if record.disabled else record.name
        table.add_row("", name, f"{1e3 * record.seconds:.1f}", *cells)
    click.echo()
    print_table(table)
    click.echo()
    print_facts(
        {
            "steps": f"{plan.num_steps} in {len(plan.threadblocks)} threadblocks on {_channels(plan.num_channels)}",
            "dependencies": len(plan.dependencies),
            "fusions": f"{report.fused} kept, {_undone(report)}{_left_apart(compiled)}",
            **_order(report),
            **verdict_facts(plan, compiled.verdict),
        }
    )
    if path is not None:
        size = format_bytes(path.stat().st_size)
        click.echo(f"\nwrote {path} ({target.name}, {size}), read back and verified")


def _channels(number: int) -> str:
    return f"{number} channel{'' if number == 1 else 's'}"


def _undone(report: CompileReport) -> str:
    parts = [f"{number} undone by {name}" for name, number in report.undone.items()]
    return " and ".join(parts) or "none undone"


def _pass_fields(record: PassRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "seconds": record.seconds,
        "rows": record.rows,
        "num_fused": record.fused,
        "num_dependencies": record.waits,
        "disabled": record.disabled,
    }


def _order(report: CompileReport) -> dict[str, str]:
    """Why operations were not sorted, where that was the compiler's choice."""
    if report.fused_by_depth is None:
        return {}
    return {"order": f"of the program; sorted by depth, only {report.fused_by_depth} fusions would stay"}


def _left_apart(compiled: Compiled) -> str:
    number, slots = compiled.report.left_apart, compiled.verdict.slots
    return f", {number} not made: messages of more than {slots} chunks (see --slots)" if number else ""
