"""hemiola verify: the verdict on any plan file."""

from __future__ import annotations

import click

from hemiola.cli import options
from hemiola.cli.output import (
    plan_line,
    print_facts,
    print_json,
    print_wrapped,
    verdict_facts,
    verdict_fields,
)
from hemiola.cli.progress import working
from hemiola.ir.formats import read_plan
from hemiola.ir.plan import Plan
from hemiola.ir.targets import TARGETS, broken_limits
from hemiola.ir.verdict import Failure, FailureKind, Verdict
from hemiola.ir.verify import verify


@click.command("verify")
@click.argument("plan", metavar="PLAN")
@options.slots
@options.target
@options.root
@options.as_json
def command(plan: str, slots: int | None, target: str | None, root: int | None, as_json: bool) -> int:
    """Prove a plan file right, a native one or MSCCL XML, or say what is wrong with it.

    Judged are the postcondition, races (slots are not counted on for order), deadlock with K slots per
    connection (by default what the protocol has), connections, and with --target the limits of its runtime.
    Exits with 1 when the plan is not correct.
    """
    with working(f"verifying {plan}"):
        found = read_plan(plan, root=root)
        verdict = verify(found, slots=slots)
        limits = _broken_limits(found, verdict, target)
    if as_json:
        print_json({**verdict_fields(verdict, limits), "num_steps": found.num_steps})
    else:
        _print(plan, found, verdict, limits)
    return 0 if verdict.ok and not limits else 1


def _broken_limits(plan: Plan, verdict: Verdict, target: str | None) -> list[Failure]:
    malformed = any(failure.kind is FailureKind.FORM for failure in verdict.failures)
    if target is None or malformed:
        return []
    return [Failure(FailureKind.LIMIT, broken.message) for broken in broken_limits(plan, TARGETS[target])]


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
    for failure in failures:
        first, *rest = failure.message.splitlines()
        print_wrapped(f"{failure.kind.value}: ", first)
        for line in rest:
            print_wrapped("  ", line.strip())
