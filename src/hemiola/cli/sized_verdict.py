"""What hemiola verify --runtime says: the sizes for which a plan is correct, and from which size on it hangs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import click

from hemiola.cli.output import (
    plan_line,
    print_facts,
    print_failures,
    print_wrapped,
    verdict_facts,
    verdict_fields,
)
from hemiola.ir.plan import Plan
from hemiola.ir.verdict import Failure
from hemiola.ir.verify_sizes import JudgedWindow, SizedVerdict
from hemiola.units import format_bytes


def sized_fields(sized: SizedVerdict, limits: Iterable[Failure]) -> dict[str, Any]:
    """A verdict under a runtime as JSON."""
    hangs = [sized.hang] if sized.hang is not None and sized.hangs_in_range else []
    return {
        **verdict_fields(sized.verdict, [*hangs, *limits]),
        "runtime": sized.runtime,
        "protocol": sized.protocol.value,
        "hangs_from_bytes": sized.hangs_from_bytes,
        "correct_to_bytes": sized.correct_to_bytes,
        "hang": None if sized.hang is None else sized.hang.message,
        "sizes": [
            _size_fields(list(group)) for _, group in groupby(sized.windows, key=lambda one: one.hangs)
        ],
    }


def print_sized(path: str, plan: Plan, sized: SizedVerdict, limits: Sequence[Failure]) -> None:
    """The same for people."""
    click.echo(f"{path}: {_headline(sized, limits)}")
    what = {"plan": plan.name, "collective": plan_line(plan), "steps": plan.num_steps}
    if not sized.verdict.ok:
        print_facts(what)
        print_failures([*sized.verdict.failures, *limits])
        return
    facts = verdict_facts(plan, sized.verdict)
    print_facts({**what, **facts, "deadlock": _deadlock(sized), "sizes of the file": _own_range(sized)})
    if sized.hang is not None:
        print_failures([sized.hang])
        print_wrapped("", f"Way out: {_way_out(sized)}.")
    print_failures(limits)


def _headline(sized: SizedVerdict, limits: Sequence[Failure]) -> str:
    failures = [*sized.verdict.failures, *limits]
    if failures:
        return f"not correct, {len(failures)} failure{'s' * (len(failures) > 1)}"
    under = f"under {sized.runtime} with {sized.protocol.value}"
    if not sized.hangs_in_range:
        return f"correct {under}" if sized.verdict.postcondition_known else f"no race and no deadlock {under}"
    if not sized.correct_to_bytes:
        return f"not correct {under}: it hangs at every size"
    return f"correct {under} only up to {sized.correct_to_bytes} bytes; it hangs from {sized.hangs_from_bytes} on"


def _deadlock(sized: SizedVerdict) -> str:
    slots = f"{sized.slots} slot{'' if sized.slots == 1 else 's'} per connection"
    if sized.hangs_from_bytes is None:
        return f"none at any size with {slots}"
    shown = format_bytes(sized.hangs_from_bytes)
    return (
        f"none up to {sized.correct_to_bytes} bytes with {slots}; from {sized.hangs_from_bytes} on ({shown})"
    )


def _own_range(sized: SizedVerdict) -> str:
    if sized.max_bytes is None:
        return f"from {sized.min_bytes} bytes on, without end"
    return f"{sized.min_bytes} to {sized.max_bytes} bytes"


def _way_out(sized: SizedVerdict) -> str:
    if not sized.hangs_in_range:
        return f"none is needed, since the file ends at {sized.max_bytes} bytes; keep its maxBytes"
    others = "cut the data into more chunks, so that more of them fit into a message, or let ranks receive before they send again"
    if not sized.correct_to_bytes:
        return others
    return f'write maxBytes="{sized.correct_to_bytes}" into the file, {others}'


def _size_fields(group: Sequence[JudgedWindow]) -> dict[str, Any]:
    return {
        "min_bytes": group[0].window.min_bytes,
        "max_bytes": group[-1].window.max_bytes,
        "hangs": group[0].hangs,
    }
