"""What verbs print: JSON for machines, tables for people, and the same facts in both."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from hemiola.ir.plan import Plan
from hemiola.ir.verdict import Failure, Verdict

if TYPE_CHECKING:
    from rich.table import Table

WIDTH_OF_A_FILE = 100
"""Columns of what is not printed to a terminal."""


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(table: Table) -> None:
    """A table on stdout; text in it is taken as it is."""
    from rich.console import Console  # only where a table is printed; the same below

    width = None if sys.stdout is not None and sys.stdout.isatty() else WIDTH_OF_A_FILE
    console = Console(markup=False, highlight=False, emoji=False, width=width)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def make_table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """A table without lines, indented by two; columns of numbers are right-aligned."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right" if column in set(numbers) else "left", overflow="fold")
    return table


def print_wrapped(first: str, text: str) -> None:
    """``first`` and then ``text``, wrapped so that all of it stands to the right of ``first``."""
    width = (
        min(shutil.get_terminal_size().columns, WIDTH_OF_A_FILE) if sys.stdout.isatty() else WIDTH_OF_A_FILE
    )
    room = max(20, width - len(first))
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    click.echo(first + f"\n{' ' * len(first)}".join(lines))


def print_facts(facts: Mapping[str, object]) -> None:
    """Names and values below each other, aligned."""
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        click.echo(f"  {name:<{width}}  {value}")


def print_failures(failures: Iterable[Failure]) -> None:
    """Each failure with its kind, the lines of a cycle indented."""
    for failure in failures:
        first, *rest = failure.message.splitlines()
        print_wrapped(f"{failure.kind.value}: ", first)
        for line in rest:
            print_wrapped("  ", line.strip())


def plan_fields(plan: Plan) -> dict[str, Any]:
    """What a plan is, as JSON."""
    c = plan.collective
    return {
        "name": plan.name,
        "collective": c.kind,
        "num_ranks": c.num_ranks,
        "chunks": c.chunks,
        "in_place": c.in_place,
        "both_places": plan.both_places,
        "protocol": plan.protocol.value,
        "min_bytes": plan.min_bytes,
        "max_bytes": plan.max_bytes,
        "num_steps": plan.num_steps,
        "num_threadblocks": len(plan.threadblocks),
        "num_channels": plan.num_channels,
        "num_dependencies": len(plan.dependencies),
    }


def plan_line(plan: Plan) -> str:
    """What a plan is, in a line."""
    c = plan.collective
    place = "in place and out of place" if plan.both_places else "in place" if c.in_place else "out of place"
    return f"{c.kind} of {c.num_ranks} ranks, {place}, protocol {plan.protocol.value}"


def verdict_fields(verdict: Verdict, limits: Iterable[Failure] = ()) -> dict[str, Any]:
    """A verdict as JSON; ``limits`` are further failures."""
    failures = [*verdict.failures, *limits]
    return {
        "ok": not failures,
        "failures": [_failure_fields(failure) for failure in failures],
        "slots": verdict.slots,
        "same_expression": verdict.same_expression,
        "preserves_input": verdict.preserves_input,
        "postcondition_known": verdict.postcondition_known,
    }


def verdict_facts(plan: Plan, verdict: Verdict) -> dict[str, object]:
    """What is known about a correct plan, for people."""
    preserved = "it is the output, in place" if plan.collective.in_place else _yes(verdict.preserves_input)
    slots = f"{verdict.slots} slot{'' if verdict.slots == 1 else 's'} per connection"
    promise = "holds" if verdict.postcondition_known else "not known: the file says only that it is custom"
    return {
        "postcondition": promise,
        "races": "none",
        "deadlock": f"none with {slots}, a step taking one slot or one per chunk",
        **({"same bits on all ranks": _yes(verdict.same_expression)} if verdict.postcondition_known else {}),
        "input preserved": preserved,
    }


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _failure_fields(failure: Failure) -> dict[str, Any]:
    return {
        "kind": failure.kind.value,
        "message": failure.message,
        "rank": failure.rank,
        "threadblock": failure.threadblock,
        "step": failure.step,
        "line": failure.line,
    }
