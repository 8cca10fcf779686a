"""``judge``: the verdict on a plan for this runtime, whose connections have slots for whole messages."""

from __future__ import annotations

from dataclasses import replace

from hemiola.ir.plan import Plan
from hemiola.ir.verdict import FailureKind, Verdict
from hemiola.ir.verify import verify

SLOTS = 4
"""The least number of messages that a connection of the runtime holds before its sender waits."""


def judge(plan: Plan, *, slots: int = SLOTS) -> Verdict:
    """Whether the plan is correct where a connection has ``slots`` slots and a message takes one of them.

    ``verify`` also requires that a plan ends where every chunk of a message takes a slot of its own, as in runtimes on
    GPUs. Here a message takes one slot, whatever its count, so the plan can only deadlock if the same plan with messages
    of one chunk each does.
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
    """Whether the plan deadlocks, whatever else is wrong with it."""
    return any(failure.kind is FailureKind.DEADLOCK for failure in verify(plan, slots=slots).failures)
