"""``judge``: the verdict on a plan for this runtime, whose connections have slots for whole messages."""

from __future__ import annotations

from dataclasses import replace

from hemiola.ir.plan import Plan
from hemiola.ir.size_windows import HEMIOLA
from hemiola.ir.verdict import Verdict
from hemiola.ir.verify_sizes import OWN_SLOTS, verify_sizes

SLOTS = OWN_SLOTS
"""The least number of messages that a connection of the runtime holds before its sender waits."""


def judge(plan: Plan, *, slots: int = SLOTS) -> Verdict:
    """Whether the plan is correct where a connection has ``slots`` slots and a message takes one of them.

    ``verify`` also requires that a plan ends where every chunk of a message takes a slot of its own, as in runtimes on
    GPUs. Here a step is one message of any count, at every size.
    """
    sized = verify_sizes(plan, HEMIOLA, slots=slots)
    return replace(sized.verdict, failures=sized.failures)
