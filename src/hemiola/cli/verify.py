"""hemiola verify: the verdict on any plan file, and under a runtime the sizes for which it is correct."""

from __future__ import annotations

from typing import Any

import click

from hemiola.cli import options
from hemiola.cli.output import (
    plan_line,
    print_facts,
    print_failures,
    print_json,
    print_wrapped,
    verdict_facts,
    verdict_fields,
)
from hemiola.cli.progress import working
from hemiola.cli.sized_verdict import print_sized, sized_fields
from hemiola.ir.formats import is_native, read_plan
from hemiola.ir.plan import Plan
from hemiola.ir.size_windows import RUNTIMES
from hemiola.ir.targets import TARGETS, as_written, broken_limits
from hemiola.ir.verdict import Failure, FailureKind, Verdict
from hemiola.ir.verify import verify
from hemiola.ir.verify_sizes import verify_sizes

SIZES_HINT = (
    "Runtimes on GPUs pack several chunks of a step into a message, as many as their size allows, so this may depend on the"
    " size of the call: --runtime rccl or msccl says for which sizes the plan is correct."
)


@click.command("verify")
@click.argument("plan", metavar="PLAN")
@options.slots
@options.target
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    help="Judge every size as this runtime cuts it, and say from which size on it hangs.",
)
@options.root
@options.as_json
def command(
    plan: str, slots: int | None, target: str | None, runtime: str | None, root: int | None, as_json: bool
) -> int:
    """Prove a plan file right, a native one or MSCCL XML, or say what is wrong with it.

    Judged are the postcondition, races (slots are not counted on for order), deadlock with K slots per
    connection (by default what the protocol has), connections, and with --target the limits of its runtime.
    With --runtime, deadlock is judged for every size, and the plan is correct when no size of its own range
    (minBytes, maxBytes) hangs. Exits with 1 when the plan is not correct.
    """
    with working(f"verifying {plan}"):
        found = read_plan(plan, root=root)
        if runtime is not None:
            sized = verify_sizes(found, runtime, slots=slots)
            limits = _broken_limits(plan, found, sized.verdict, target)
        else:
            verdict = verify(found, slots=slots)
            limits = _broken_limits(plan, found, verdict, target)
    if runtime is not None:
        if as_json:
            print_json({**sized_fields(sized, limits), "num_steps": found.num_steps})
        else:
            print_sized(plan, found, sized, limits)
        return 0 if sized.ok and not limits else 1
    if as_json:
        print_json(_fields(found, verdict, limits))
    else:
        _print(plan, found, verdict, limits)
    return 0 if verdict.ok and not limits else 1


def _broken_limits(path: str, plan: Plan, verdict: Verdict, target: str | None) -> list[Failure]:
    """A file of a runtime is judged as it is, a native one as it would be written."""
    malformed = any(failure.kind is FailureKind.FORM for failure in verdict.failures)
    if target is None or malformed:
        return []
    judged = as_written(plan, TARGETS[target]) if is_native(path) else plan
    return [Failure(FailureKind.LIMIT, broken.message) for broken in broken_limits(judged, TARGETS[target])]


def _fields(plan: Plan, verdict: Verdict, limits: list[Failure]) -> dict[str, Any]:
    return {**verdict_fields(verdict, limits), "num_steps": plan.num_steps}


def _print(path: str, plan: Plan, verdict: Verdict, limits: list[Failure]) -> None:
    failures = [*verdict.failures, *limits]
    found = f"not correct, {len(failures)} failure{'s' * (len(failures) > 1)}"
    if not failures:
        known = verdict.postcondition_known
        found = "correct" if known else "no race and no deadlock; what it computes is not known"
    click.echo(f"{path}: {found}")
    what = {"plan": plan.name, "collective": plan_line(plan), "steps": plan.num_steps}
    if not failures:
        print_facts({**what, **verdict_facts(plan, verdict)})
        return
    print_facts(what)
    print_failures(failures)
    if {failure.kind for failure in failures} == {FailureKind.DEADLOCK}:
        print_wrapped("", SIZES_HINT)
