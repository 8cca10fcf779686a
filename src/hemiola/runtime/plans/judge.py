"""judge: the verdict on a plan for this runtime and its connections."""

from __future__ import annotations

from dataclasses import replace

from hemiola.ir.plan import Plan
from hemiola.ir.verdict import FailureKind, Verdict
from hemiola.ir.verify import verify

SLOTS = 4
"""Messages that a connection of the runtime holds at least before its sender waits."""


def judge(plan: Plan, *, slots: int = SLOTS) -> Verdict:
    """Whether the plan is correct where a connection has ``slots`` slots and a message takes one of them.

    ``verify`` also asks that a plan end where every chunk of a message takes a slot of its own, as runtimes
    on GPUs have it. Here a message takes one, whatever its count: the waits are those of the same plan with
    messages of one chunk each.
    """
    verdict = verify(plan, slots=slots)
    if any(failure.kind is not FailureKind.DEADLOCK for failure in verdict.failures):
        return verdict
    if not verdict.ok and not _stops(_with_single_chunks(plan), slots):
        return replace(verdict, failures=())
    return verdict


def _with_single_chunks(plan: Plan) -> Plan:
    steps = plan.steps.copy()
    steps["count"] = 1
    return replace(plan, steps=steps)


def _stops(plan: Plan, slots: int) -> bool:
    """Whether threadblocks wait for each other for ever, whatever else may be wrong with the plan."""
    return any(failure.kind is FailureKind.DEADLOCK for failure in verify(plan, slots=slots).failures)
