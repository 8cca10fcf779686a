"""Demands: what a request asks of a correct plan beside its collective."""

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
    """Why a plan for the right collective does not serve the request all the same, or None."""
    if request.same_expression and not verdict.same_expression:
        return "its ranks do not all add up in the same order, and the same bits are asked for"
    if not request.in_place and not verdict.preserves_input:
        return "it writes the input of an out-of-place call"
    if request.uneven and not moves_directly(plan):
        return "it moves shares through places of other lengths, and they differ in length"
    return None


def moves_directly(plan: Plan) -> bool:
    """Whether all that moves comes from an input and goes into an output, where it stays.

    Then both ends of every message know its length, whatever the lengths of other shares; a share that lies
    in scratch, or for a while in another's place, would need all of them to be of one length.
    """
    steps = plan.steps
    opcode = steps["opcode"]
    from_input = ~_READS[opcode] | (steps["src_buffer"] == Buffer.INPUT)
    to_output = ~_WRITES[opcode] | (steps["dst_buffer"] == Buffer.OUTPUT)
    return bool(np.all(np.isin(opcode, _PLAIN) & from_input & to_output))
