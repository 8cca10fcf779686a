"""A plan without fused operations, for runtimes whose kernels have only s, r, cpy, re and nop.

A fused step becomes a few steps of the same threadblock, in the same place of its order:

    rcs   r into the destination; s of it
    rrc   r into the destination; re of the source into it                     source and destination differ
          r into scratch; re of it into the destination                        they are the same
          r into scratch; re of the source into it; cpy to the destination     that depends on the call's place
    rrcs  the same as rrc; s of the destination
    rrs   r into scratch; re of the source into it; s of it

The first part waits for what the step waited for, and what waited for the step waits for its last part. A
message is taken before a slot is needed, so a plan that ends with fused steps also ends without them. Every
threadblock has scratch of its own, as much as the longest of its steps needs, behind its rank's other scratch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hemiola.collectives import Buffer
from hemiola.ir.form import Owners, in_memory
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import Plan, Rows

PLAIN = frozenset({Opcode.NOP, Opcode.S, Opcode.R, Opcode.CPY, Opcode.RE})
"""Operations that receive or send, but not both, and that reduce only in memory."""

Integers = npt.NDArray[np.int64]
Part = tuple[Opcode, str, str]
"""What a part does, where it reads and where it writes: a side of the fused step, "scratch", or "" for nowhere."""
Parts = tuple[Part, ...]

_APART: Parts = ((Opcode.R, "", "dst"), (Opcode.RE, "src", "dst"))
_SAME: Parts = ((Opcode.R, "", "scratch"), (Opcode.RE, "scratch", "dst"))
_IN_SCRATCH: Parts = ((Opcode.R, "", "scratch"), (Opcode.RE, "src", "scratch"))
_EITHER: Parts = (*_IN_SCRATCH, (Opcode.CPY, "scratch", "dst"))
_SEND: Part = (Opcode.S, "dst", "")

_RECIPES: tuple[Parts, ...] = (
    (),
    ((Opcode.R, "", "dst"), _SEND),
    (*_IN_SCRATCH, (Opcode.S, "scratch", "")),
    *(_APART, _SAME, _EITHER),
    *((*parts, _SEND) for parts in (_APART, _SAME, _EITHER)),
)
"""The parts of a step, by the number of its recipe; 0 keeps it as it is."""
_FIRST_RECIPE = {Opcode.RCS: 1, Opcode.RRS: 2, Opcode.RRC: 3, Opcode.RRCS: 6}
_NEEDS_SCRATCH = np.array([any("scratch" in part for part in parts) for parts in _RECIPES])
_LENGTHS = np.array([max(1, len(parts)) for parts in _RECIPES])


def is_plain(plan: Plan) -> bool:
    """Whether every step is a plain operation."""
    return bool(np.isin(plan.steps["opcode"], [int(code) for code in PLAIN]).all())


def unfuse(plan: Plan) -> Plan:
    """The same plan with plain operations only; its form must be right."""
    if is_plain(plan):
        return plan
    owners = Owners(plan)
    recipes = _recipes(plan, owners)
    scratch, ranks = _add_scratch(plan, owners, recipes)
    times = _LENGTHS[recipes]
    first = np.cumsum(times) - times
    steps = np.repeat(plan.steps, times)
    for number, parts in enumerate(_RECIPES):
        rows = np.flatnonzero(recipes == number)
        for offset, part in enumerate(parts):
            steps[first[rows] + offset] = _part_rows(
                plan.steps[rows], part, scratch[owners.threadblock[rows]]
            )
    return _with_parts(plan, owners, steps, ranks, first, times)


def _recipes(plan: Plan, owners: Owners) -> Integers:
    """The number of the recipe of every step."""
    codes = plan.steps["opcode"]
    found = np.zeros(len(plan.steps), np.int64)
    for opcode, number in _FIRST_RECIPE.items():
        found[codes == opcode] = number
    places = [plan.for_place(in_place=place) for place in (True, False)] if plan.both_places else [plan]
    same = np.stack([_is_same_memory(one, owners) for one in places])
    adds = np.isin(codes, [int(Opcode.RRC), int(Opcode.RRCS)])
    found += np.where(adds & same.all(0), 1, 0) + np.where(adds & same.any(0) & ~same.all(0), 2, 0)
    return found


def _is_same_memory(plan: Plan, owners: Owners) -> npt.NDArray[np.bool_]:
    rows = np.arange(len(plan.steps))
    (src, src_index), (dst, dst_index) = (in_memory(plan, owners.rank, rows, side) for side in ("src", "dst"))
    same: npt.NDArray[np.bool_] = (src == dst) & (src_index == dst_index)
    return same


def _add_scratch(plan: Plan, owners: Owners, recipes: Integers) -> tuple[Integers, Rows]:
    """Where the scratch of every threadblock begins, and the ranks with room for it."""
    needed = np.zeros(len(plan.threadblocks), np.int64)
    counts = np.where(_NEEDS_SCRATCH[recipes], plan.steps["count"], 0)
    np.maximum.at(needed, owners.threadblock, counts)
    rank = plan.threadblocks["rank"].astype(np.int64)
    ranks = plan.ranks.copy()
    ranks["scratch_chunks"] += np.bincount(rank, needed, minlength=plan.num_ranks).astype(np.uint32)
    before = np.cumsum(needed) - needed
    own = before - before[plan.ranks["first_threadblock"].astype(np.int64)[rank]]
    return plan.ranks["scratch_chunks"].astype(np.int64)[rank] + own, ranks


def _part_rows(fused: Rows, part: Part, scratch: Integers) -> Rows:
    """One part of some fused steps."""
    opcode, reads, writes = part
    rows = fused.copy()
    rows["opcode"] = int(opcode)
    for side, place in (("src", reads), ("dst", writes)):
        if place == "scratch":
            rows[f"{side}_buffer"], rows[f"{side}_index"] = int(Buffer.SCRATCH), scratch
        else:
            rows[f"{side}_buffer"] = fused[f"{place}_buffer"] if place else 0
            rows[f"{side}_index"] = fused[f"{place}_index"] if place else 0
    return rows


def _with_parts(
    plan: Plan, owners: Owners, steps: Rows, ranks: Rows, first: Integers, times: Integers
) -> Plan:
    threadblocks, dependencies = plan.threadblocks.copy(), plan.dependencies.copy()
    starts = np.append(first, len(steps))
    threadblocks["first_step"] = starts[plan.threadblocks["first_step"]]
    waits = np.append(plan.steps["first_dependency"], len(plan.dependencies)).astype(np.int64)
    later = np.ones(len(steps), bool)
    later[first] = False
    steps["first_dependency"] = np.where(later, np.repeat(waits[1:], times), np.repeat(waits[:-1], times))
    waiting_rank = np.repeat(owners.rank, owners.num_dependencies)
    block = plan.ranks["first_threadblock"].astype(np.int64)[waiting_rank] + plan.dependencies["threadblock"]
    awaited = plan.threadblocks["first_step"].astype(np.int64)[block] + plan.dependencies["step"]
    last = first[awaited] + times[awaited] - 1
    dependencies["step"] = last - threadblocks["first_step"].astype(np.int64)[block]
    return replace(plan, ranks=ranks, threadblocks=threadblocks, steps=steps, dependencies=dependencies)
