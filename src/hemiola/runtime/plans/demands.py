"""Demands: what a request requires of a plan besides the right collective."""

from __future__ import annotations

import numpy as np

from hemiola.collectives import Buffer
from hemiola.ir.opcodes import TRAITS, Opcode
from hemiola.ir.plan import Plan
from hemiola.ir.verdict import Verdict
from hemiola.runtime.plans.plan_source import PlanRequest

_PLAIN = (Opcode.NOP, Opcode.S, Opcode.R, Opcode.CPY)
_READS = np.array([t.reads_source for t in TRAITS])
_WRITES = np.array([t.writes_destination for t in TRAITS])


def unmet_demand(plan: Plan, verdict: Verdict, request: PlanRequest) -> str | None:
    """Why a plan for the right collective does not serve the request; None if it does."""
    if request.same_expression and not verdict.same_expression:
        return "its ranks do not all add up in the same order, and the same bits are asked for"
    if not request.in_place and not verdict.preserves_input:
        return "it writes the input of an out-of-place call"
    if request.uneven and not moves_directly(plan):
        return "it moves shares through places of other lengths, and they differ in length"
    return None


def moves_directly(plan: Plan) -> bool:
    """Whether every copy and message reads an input and writes an output, and nothing is reduced or forwarded.

    Then both ends of every message know its length, whatever the lengths of other shares. A share that passes through
    a scratch buffer, or through the place of another share, would need all shares to have the same length.
    """
    steps = plan.steps
    opcode = steps["opcode"]
    from_input = ~_READS[opcode] | (steps["src_buffer"] == Buffer.INPUT)
    to_output = ~_WRITES[opcode] | (steps["dst_buffer"] == Buffer.OUTPUT)
    return bool(np.all(np.isin(opcode, _PLAIN) & from_input & to_output))
