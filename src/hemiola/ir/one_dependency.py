"""A plan in which every step waits for one other at most, as MSCCL's XML needs it.

Further dependencies of a step become ``nop`` steps right before it, each with one. Before that, what waits
for nothing new is dropped: a step of the own threadblock, and all but the last step of one other. Steps
that are ``nop`` already are dissolved first, because a runtime cannot wait for one: their dependencies move
to the next real step, and who waited for a ``nop`` waits for what it waited for.

    tb 0: 0 s (after 1.0, 2.3)     becomes     tb 0: 0 nop (after 1.0)  1 s (after 2.3)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hemiola.errors import PlanError
from hemiola.ir.form import Owners
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import DEPENDENCY, STEP, Plan

MAX_WAITS = 1_000_000

Integers = npt.NDArray[np.int64]
Pairs = tuple[Integers, Integers]
"""Dependencies as (waiting row, awaited row) of the steps."""


def with_one_dependency(plan: Plan) -> Plan:
    """The same plan with at most one dependency per step; its form must be right."""
    owners = Owners(plan)
    if (plan.steps["opcode"] == Opcode.NOP).any():
        plan = _without_nops(plan, owners)
        owners = Owners(plan)
    waiting, awaited = _needed(owners, *_as_rows(plan, owners))
    extra = np.maximum(np.bincount(waiting, minlength=len(plan.steps)) - 1, 0)
    return _with_nops(plan, owners, waiting, awaited, extra)


def _as_rows(plan: Plan, owners: Owners) -> Pairs:
    waiting = np.repeat(np.arange(len(plan.steps)), owners.num_dependencies)
    first_threadblock = plan.ranks["first_threadblock"].astype(np.int64)[owners.rank[waiting]]
    threadblock = first_threadblock + plan.dependencies["threadblock"]
    return waiting, plan.threadblocks["first_step"].astype(np.int64)[threadblock] + plan.dependencies["step"]


def _needed(owners: Owners, waiting: Integers, awaited: Integers) -> Pairs:
    """Without the own threadblock, and of each other one only the last step; sorted."""
    foreign = owners.threadblock[waiting] != owners.threadblock[awaited]
    waiting, awaited = waiting[foreign], awaited[foreign]
    order = np.lexsort((awaited, waiting))
    waiting, awaited = waiting[order], awaited[order]
    threadblock = owners.threadblock[awaited]
    last = np.ones(len(waiting), bool)
    last[:-1] = (waiting[1:] != waiting[:-1]) | (threadblock[1:] != threadblock[:-1])
    return waiting[last], awaited[last]


def _with_nops(plan: Plan, owners: Owners, waiting: Integers, awaited: Integers, extra: Integers) -> Plan:
    place = np.arange(len(plan.steps)) + np.cumsum(extra)
    before = np.cumsum(extra) - extra + np.arange(len(plan.steps))
    steps = np.zeros(len(plan.steps) + int(extra.sum()), STEP)
    steps["line"] = np.repeat(plan.steps["line"], extra + 1)
    steps[place] = plan.steps
    threadblocks = plan.threadblocks.copy()
    ends = np.append(before, len(steps))
    threadblocks["first_step"] = ends[plan.threadblocks["first_step"]]
    first_step = threadblocks["first_step"].astype(np.int64)
    order_in_step = np.arange(len(waiting)) - np.searchsorted(waiting, waiting)
    carrier = before[waiting] + order_in_step
    has_one = np.zeros(len(steps), bool)
    has_one[carrier] = True
    steps["first_dependency"] = np.cumsum(has_one) - has_one
    dependencies = np.zeros(len(waiting), DEPENDENCY)
    row = owners.threadblock[awaited]
    dependencies["threadblock"] = row - plan.ranks["first_threadblock"].astype(np.int64)[owners.rank[awaited]]
    dependencies["step"] = place[awaited] - first_step[row]
    return replace(plan, threadblocks=threadblocks, steps=steps, dependencies=dependencies)


def _without_nops(plan: Plan, owners: Owners) -> Plan:
    real = plan.steps["opcode"] != Opcode.NOP
    pairs = _dissolve(plan, owners, real)
    new_row = np.cumsum(real) - real
    waiting, awaited = new_row[pairs[0]], new_row[pairs[1]]
    steps = plan.steps[real]
    threadblocks = plan.threadblocks.copy()
    threadblocks["first_step"] = np.append(new_row, len(steps))[plan.threadblocks["first_step"]]
    first_step = threadblocks["first_step"].astype(np.int64)
    steps["first_dependency"] = np.searchsorted(waiting, np.arange(len(steps)))
    dependencies = np.zeros(len(waiting), DEPENDENCY)
    row = owners.threadblock[pairs[1]]
    dependencies["threadblock"] = (
        row - plan.ranks["first_threadblock"].astype(np.int64)[owners.rank[pairs[1]]]
    )
    dependencies["step"] = awaited - first_step[row]
    return replace(plan, threadblocks=threadblocks, steps=steps, dependencies=dependencies)


def _dissolve(plan: Plan, owners: Owners, real: npt.NDArray[np.bool_]) -> Pairs:
    """(waiting real row, awaited real row), sorted: the next real step takes over what a ``nop`` awaits."""
    meeting = _Meeting(_waits_of(plan, owners), real.tolist(), owners)
    pairs: set[tuple[int, int]] = set()
    pending: list[int] = []
    for row, is_real in enumerate(meeting.is_real):
        if row and meeting.threadblock[row] != meeting.threadblock[row - 1]:
            pending.clear()
        pending.extend(meeting.waits[row])
        if is_real:
            pairs.update((row, met) for awaited in pending for met in meeting.of(awaited))
            if len(pairs) > MAX_WAITS:
                raise PlanError(
                    f"the nops of this plan stand for more than {MAX_WAITS} waits, which no file with one wait "
                    "a step can hold; use --target plan"
                )
            pending.clear()
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


class _Meeting:
    """Which real steps have finished when a step has; of each threadblock the last is enough."""

    def __init__(self, waits: list[list[int]], is_real: list[bool], owners: Owners) -> None:
        self.waits, self.is_real, self.owners = waits, is_real, owners
        self.threadblock = owners.threadblock.tolist()
        self._met: dict[int, dict[int, int]] = {}

    def of(self, row: int) -> list[int]:
        """The step itself, or for a ``nop`` the steps that it stands for."""
        if self.is_real[row]:
            return [row]
        self._meet(row)
        return list(self._met[row].values())

    def _parents(self, row: int) -> list[int]:
        before = row - 1
        same = before >= 0 and self.threadblock[before] == self.threadblock[row]
        return [*self.waits[row], *([before] if same else [])]

    def _meet(self, row: int) -> None:
        stack, opened = [row], set()
        while stack:
            top = stack[-1]
            missing = [p for p in self._parents(top) if not self.is_real[p] and p not in self._met]
            if any(p in opened for p in missing):
                raise PlanError(self.owners.fault_at(top, "this nop waits for itself").message)
            if missing:
                opened.add(top)
                stack.extend(missing)
                continue
            self._met.setdefault(top, self._join(self._parents(top)))
            opened.discard(top)
            stack.pop()

    def _join(self, parents: list[int]) -> dict[int, int]:
        last: dict[int, int] = {}
        for parent in parents:
            for met in [parent] if self.is_real[parent] else self._met[parent].values():
                threadblock = self.threadblock[met]
                last[threadblock] = max(met, last.get(threadblock, met))
        return last


def _waits_of(plan: Plan, owners: Owners) -> list[list[int]]:
    waits: list[list[int]] = [[] for _ in range(len(plan.steps))]
    for waiting, awaited in zip(*(column.tolist() for column in _as_rows(plan, owners)), strict=True):
        waits[waiting].append(awaited)
    return waits
