"""message_steps: a plan as a GPU runtime moves it: a step for every slice of every message.

A step of ``count`` chunks is ``ceil(count / packed)`` messages, and a message so many slices, which the receiver takes one after
another. Chunks are counted in slices here: a tile of a chunk has ``1 / slices`` of its bytes, so that steps which move no
message do all their slices at once.

    s cnt 8, packed 4, slices 2  ->  s cnt 4, s cnt 4 (first message), s cnt 4, s cnt 4 (second message)
    re cnt 1                     ->  re cnt 2
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hemiola.ir.one_dependency import with_one_dependency
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan
from hemiola.simulator.runtimes.runtime_model import LoweredPlan

_MOVES = np.array([traits.sends or traits.receives for traits in TRAITS])
MOST_KEPT = 64
_KEPT: OrderedDict[tuple[int, int, int, bool], tuple[Plan, LoweredPlan]] = OrderedDict()
"""Plans that were asked for last: searches ask for the same ones at many sizes."""


def message_steps(plan: Plan, packed: int, slices: int, *, one_dependency: bool = False) -> LoweredPlan:
    """The same plan with a step for every slice of every message of up to ``packed`` chunks.

    With ``one_dependency``, a step that waits for several others has a ``nop`` before it for all but one of them.
    """
    key = (id(plan), min(packed, int(plan.steps["count"].max(initial=1))), slices, one_dependency)
    found = _KEPT.get(key)
    if found is None or found[0] is not plan:
        stepped = with_one_dependency(plan) if one_dependency else plan
        found = _KEPT[key] = (plan, _split(stepped, packed, slices))
        while len(_KEPT) > MOST_KEPT:
            _KEPT.popitem(last=False)
    return found[1]


def _split(plan: Plan, packed: int, slices: int) -> LoweredPlan:
    steps, counts = plan.steps, plan.steps["count"].astype(np.int64)
    moves = _MOVES[steps["opcode"]]
    num_messages = np.where(moves, np.maximum(-(-counts // packed), 1), 1)
    num_parts = np.where(moves, num_messages * slices, 1)
    if (num_parts == 1).all() and slices == 1:
        return LoweredPlan(plan)
    first_part = np.concatenate([[0], np.cumsum(num_parts)])
    source = np.repeat(np.arange(len(steps)), num_parts)
    message = (np.arange(first_part[-1]) - first_part[source]) // slices
    made = steps[source].copy()
    sent = np.minimum(counts[source] - message * packed, packed)
    made["count"] = np.where(moves[source], np.maximum(sent, 0), counts[source] * slices)
    for side in ("src_index", "dst_index"):
        moved = steps[side].astype(np.int64)[source] + np.where(moves[source], message * packed, 0)
        made[side] = moved.astype(steps[side].dtype)
    is_first = np.arange(first_part[-1]) == first_part[source]
    made["first_dependency"] = np.where(is_first, steps["first_dependency"][source], _ends(plan)[source])
    blocks = plan.threadblocks.copy()
    blocks["first_step"] = first_part[plan.threadblocks["first_step"].astype(np.int64)]
    split = replace(plan, steps=made, threadblocks=blocks, dependencies=_dependencies(plan, first_part))
    return LoweredPlan(split, is_first)


def _ends(plan: Plan) -> npt.NDArray[np.int64]:
    """The end of the dependencies of every step."""
    first = plan.steps["first_dependency"].astype(np.int64)
    return np.append(first[1:], len(plan.dependencies))


def _dependencies(plan: Plan, first_part: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Who waited for a step waits for the last of its parts."""
    made = plan.dependencies.copy()
    if not len(made):
        return made
    first_step = plan.threadblocks["first_step"].astype(np.int64)
    first_block = plan.ranks["first_threadblock"].astype(np.int64)
    starts = plan.steps["first_dependency"].astype(np.int64)
    step = np.searchsorted(starts, np.arange(len(made)), side="right") - 1
    block = np.searchsorted(first_step, step, side="right") - 1
    rank = plan.threadblocks["rank"].astype(np.int64)[block]
    target = first_block[rank] + made["threadblock"].astype(np.int64)
    awaited = first_step[target] + made["step"].astype(np.int64)
    made["step"] = (first_part[awaited + 1] - 1 - first_part[first_step[target]]).astype(made["step"].dtype)
    return made
