"""The form of a plan: the laws that its tables keep before anything else may be asked about them.

Whoever follows an index of a plan's tables may rely on them: rows are grouped as the tables say, every
peer, buffer, chunk, line and dependency exists, and the buffers are as large as the collective needs.
Whether the steps achieve anything is not judged here. All checks work on whole columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.collectives import Buffer
from hemiola.errors import PlanError
from hemiola.ir.opcodes import TRAITS, Opcode
from hemiola.ir.plan import NO_PEER, Plan

MAX_CHANNELS = 1 << 16

_RECEIVES = np.array([t.receives for t in TRAITS])
_SENDS = np.array([t.sends for t in TRAITS])
_USES_SOURCE = np.array([t.reads_source for t in TRAITS])
_USES_DESTINATION = np.array([t.reads_destination or t.writes_destination for t in TRAITS])

_FREE_CHUNKS = 1 << 22
_CHUNKS_PER_STEP = 1 << 12
"""A plan from a stranger may have this many chunks, and this many more per step."""

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken law and where: threadblocks are numbered within the rank, steps within the threadblock."""

    what: str
    rank: int | None = None
    threadblock: int | None = None
    step: int | None = None

    @property
    def message(self) -> str:
        """The sentence for people."""
        place = [
            f"{name} {number}"
            for name, number in (("rank", self.rank), ("threadblock", self.threadblock), ("step", self.step))
            if number is not None
        ]
        return f"{', '.join(place)}: {self.what}" if place else self.what


def check_form(plan: Plan) -> None:
    """Raise PlanError with the first law that the plan's tables break."""
    fault = first_fault(plan)
    if fault is not None:
        raise PlanError(fault.message)


def first_fault(plan: Plan) -> Fault | None:
    """The first law that the plan's tables break; None when they keep them all."""
    for law in (_ranks_fault, _grouping_fault, _size_fault, _threadblock_fault):
        fault = law(plan)
        if fault is not None:
            return fault
    return _steps_fault(plan, Owners(plan))


def check_plausible_size(plan: Plan) -> None:
    """Raise PlanError when a plan from a stranger names far more memory than its steps could fill."""
    chunks = sum(int(plan.ranks[name].sum(dtype=np.uint64)) for name in _BUFFER_FIELDS)
    inputs, outputs = plan.collective.named_chunks()
    chunks = max(chunks, int(inputs.sum()) + int(outputs.sum()))
    allowed = _FREE_CHUNKS + _CHUNKS_PER_STEP * plan.num_steps
    if chunks > allowed:
        raise PlanError(
            f"the ranks' buffers have {chunks} chunks, but a plan of {plan.num_steps} steps "
            f"may have {allowed} at most"
        )


def reachable_chunks(plan: Plan) -> Integers:
    """Chunks that steps may name, per rank and buffer; in place, the aliased buffer is a window of the other.

    A file may claim a larger input or output than the collective has, but nothing may use what the caller
    does not give.
    """
    sizes = np.stack([plan.ranks[name].astype(np.int64) for name in _BUFFER_FIELDS], axis=1)
    alias = plan.collective.alias()
    if alias is not None:
        named = plan.collective.named_chunks()[alias.source]
        window = np.minimum(named, sizes[:, alias.target] - alias.offset)
        sizes[:, alias.source] = np.where(alias.offset >= 0, window, sizes[:, alias.source])
    by_name, in_place = plan.collective.named_chunks(), plan.collective.stored_chunks()
    for buffer in (Buffer.INPUT, Buffer.OUTPUT):
        sizes[:, buffer] = np.minimum(sizes[:, buffer], np.maximum(by_name[buffer], in_place[buffer]))
    return sizes


_BUFFER_FIELDS = ("input_chunks", "output_chunks", "scratch_chunks")


class Owners:
    """The threadblock and the rank of every step, and how many children every row has."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.num_threadblocks = _lengths(plan.ranks["first_threadblock"], len(plan.threadblocks))
        self.num_steps = _lengths(plan.threadblocks["first_step"], len(plan.steps))
        self.num_dependencies = _lengths(plan.steps["first_dependency"], len(plan.dependencies))
        self.threadblock = np.repeat(np.arange(len(plan.threadblocks)), self.num_steps)
        self.rank = plan.threadblocks["rank"].astype(np.int64)[self.threadblock]

    def step_in_threadblock(self) -> Integers:
        """The number of every step within its threadblock."""
        firsts = self.plan.threadblocks["first_step"].astype(np.int64)
        return np.arange(len(self.plan.steps)) - firsts[self.threadblock]

    def fault_at(self, step: int, what: str) -> Fault:
        """A fault of one row of the steps."""
        return _threadblock_fault_at(
            self.plan,
            int(self.threadblock[step]),
            what,
            step - int(self.plan.threadblocks["first_step"][self.threadblock[step]]),
        )


def _lengths(firsts: npt.NDArray[np.uint32], total: int) -> Integers:
    ends: Integers = np.append(firsts.astype(np.int64), total)
    return ends[1:] - ends[:-1]


def _first(broken: Flags) -> int | None:
    """The first row that is marked."""
    row = int(np.argmax(broken)) if len(broken) else 0
    return row if len(broken) and broken[row] else None


def _threadblock_fault_at(plan: Plan, row: int, what: str, step: int | None = None) -> Fault:
    rank = int(plan.threadblocks["rank"][row])
    return Fault(what, rank, row - int(plan.ranks["first_threadblock"][rank]), step)


def _ranks_fault(plan: Plan) -> Fault | None:
    expected = plan.collective.num_ranks
    if len(plan.ranks) != expected:
        return Fault(f"the plan has {len(plan.ranks)} ranks, but its collective has {expected}")
    return None


def _grouping_fault(plan: Plan) -> Fault | None:
    families = (
        ("ranks", plan.ranks["first_threadblock"], "threadblocks", len(plan.threadblocks)),
        ("threadblocks", plan.threadblocks["first_step"], "steps", len(plan.steps)),
        ("steps", plan.steps["first_dependency"], "dependencies", len(plan.dependencies)),
    )
    for parents, firsts, children, total in families:
        if not len(firsts):
            if total:
                return Fault(f"there are {total} {children}, but no {parents} that they belong to")
            continue
        if firsts[0] != 0:
            return Fault(f"the first of the {children} is {firsts[0]}, but must be 0")
        row = _first(_lengths(firsts, total) < 0)
        if row is not None:
            return Fault(
                f"row {row} of the {parents} begins at {firsts[row]} of {total} {children}, "
                "after the next row's beginning or after the end"
            )
    owner = np.repeat(
        np.arange(len(plan.ranks)), _lengths(plan.ranks["first_threadblock"], len(plan.threadblocks))
    )
    row = _first(plan.threadblocks["rank"] != owner)
    if row is not None:
        found = plan.threadblocks["rank"][row]
        return Fault(f"row {row} of the threadblocks says rank {found}, but belongs to rank {owner[row]}")
    return None


def _size_fault(plan: Plan) -> Fault | None:
    """In memory, inputs and outputs are at least as large as the collective needs them."""
    sizes = reachable_chunks(plan)
    for buffer, needed in zip((Buffer.INPUT, Buffer.OUTPUT), plan.collective.named_chunks(), strict=True):
        rank = _first(sizes[:, buffer] < needed)
        if rank is not None:
            return Fault(
                f"the {buffer.name.lower()} has {sizes[rank, buffer]} chunks, but "
                f"{plan.collective.kind} needs {needed[rank]}",
                rank,
            )
    return None


def _threadblock_fault(plan: Plan) -> Fault | None:
    table = plan.threadblocks
    for field, verb in (("send_peer", "sends to"), ("recv_peer", "receives from")):
        peer = table[field]
        row = _first((peer < NO_PEER) | (peer >= len(plan.ranks)) | (peer == table["rank"]))
        if row is not None:
            return _threadblock_fault_at(
                plan,
                row,
                f"{verb} rank {peer[row]}, but only another rank of {len(plan.ranks)} can be a peer",
            )
    row = _first(table["channel"] >= MAX_CHANNELS)
    if row is not None:
        return _threadblock_fault_at(
            plan, row, f"is on channel {table['channel'][row]}, but channels end at {MAX_CHANNELS - 1}"
        )
    return None


def _steps_fault(plan: Plan, owners: Owners) -> Fault | None:
    laws: tuple[Callable[[Plan, Owners], Fault | None], ...] = (
        _code_fault,
        _range_fault,
        _overlap_fault,
        _peer_fault,
        _line_fault,
        _dependency_fault,
    )
    for law in laws:
        fault = law(plan, owners)
        if fault is not None:
            return fault
    return None


def _code_fault(plan: Plan, owners: Owners) -> Fault | None:
    steps = plan.steps
    row = _first(steps["opcode"] >= len(TRAITS))
    if row is not None:
        return owners.fault_at(
            row, f"has opcode {steps['opcode'][row]}, but opcodes end at {len(TRAITS) - 1}"
        )
    for field in ("src_buffer", "dst_buffer"):
        row = _first(steps[field] >= len(Buffer))
        if row is not None:
            return owners.fault_at(
                row, f"has {field} {steps[field][row]}, but buffers are 0 (input), 1 (output) and 2 (scratch)"
            )
    row = _first((steps["count"] == 0) & (steps["opcode"] != Opcode.NOP))
    if row is not None:
        return owners.fault_at(row, "has count 0, but every step except nop moves at least one chunk")
    return None


def _range_fault(plan: Plan, owners: Owners) -> Fault | None:
    steps, sizes = plan.steps, reachable_chunks(plan)
    for side, used in (("src", _USES_SOURCE), ("dst", _USES_DESTINATION)):
        buffer = steps[f"{side}_buffer"]
        end = steps[f"{side}_index"].astype(np.int64) + steps["count"]
        row = _first(used[steps["opcode"]] & (end > sizes[owners.rank, buffer]))
        if row is not None:
            size = sizes[owners.rank[row], buffer[row]]
            what = "reads" if side == "src" else "writes"
            name = Buffer(int(buffer[row])).name.lower()
            return owners.fault_at(
                row, f"{what} {name}[{steps[f'{side}_index'][row]}:{end[row]}], but {name} has {size} chunks"
            )
    return None


def _overlap_fault(plan: Plan, owners: Owners) -> Fault | None:
    """Source and destination of a step are the same chunks or share none, in memory."""
    steps = plan.steps
    both = np.flatnonzero((_USES_SOURCE & _USES_DESTINATION)[steps["opcode"]] & (steps["count"] > 1))
    if not len(both):
        return None
    src_buffer, src = in_memory(plan, owners.rank, both, "src")
    dst_buffer, dst = in_memory(plan, owners.rank, both, "dst")
    distance = np.abs(src - dst)
    row = _first((src_buffer == dst_buffer) & (distance > 0) & (distance < steps["count"][both]))
    if row is not None:
        return owners.fault_at(
            int(both[row]),
            f"reads {steps['count'][both[row]]} chunks and writes as many that overlap them in part; "
            "they must be the same or share none",
        )
    return None


def in_memory(plan: Plan, rank: Integers, rows: Integers, side: str) -> tuple[Integers, Integers]:
    """Buffer and index of one side of some steps, in place by the one name of the memory."""
    buffer = plan.steps[f"{side}_buffer"][rows].astype(np.int64)
    index = plan.steps[f"{side}_index"][rows].astype(np.int64)
    alias = plan.collective.alias()
    if alias is None:
        return buffer, index
    offset = alias.offset[rank[rows]]
    moved = (buffer == alias.source) & (offset >= 0)
    return np.where(moved, alias.target, buffer), np.where(moved, index + offset, index)


def _peer_fault(plan: Plan, owners: Owners) -> Fault | None:
    for field, needs, verb in (("recv_peer", _RECEIVES, "receives"), ("send_peer", _SENDS, "sends")):
        missing = plan.threadblocks[field] == NO_PEER
        row = _first(needs[plan.steps["opcode"]] & missing[owners.threadblock])
        if row is not None:
            return owners.fault_at(row, f"{verb}, but its threadblock has no {field}")
    return None


def _line_fault(plan: Plan, owners: Owners) -> Fault | None:
    row = _first(plan.steps["line"] > len(plan.lines))
    if row is not None:
        return owners.fault_at(
            row, f"comes from line {plan.steps['line'][row]} of a table of {len(plan.lines)} lines"
        )
    return None


def _dependency_fault(plan: Plan, owners: Owners) -> Fault | None:
    if not len(plan.dependencies):
        return None
    step = np.repeat(np.arange(len(plan.steps)), owners.num_dependencies)
    rank = owners.rank[step]
    target = plan.dependencies["threadblock"].astype(np.int64)
    number = plan.dependencies["step"].astype(np.int64)
    row = _first(target >= owners.num_threadblocks[rank])
    if row is not None:
        return owners.fault_at(
            int(step[row]),
            f"waits for threadblock {target[row]}, but the rank has {owners.num_threadblocks[rank[row]]}",
        )
    target_row = plan.ranks["first_threadblock"].astype(np.int64)[rank] + target
    row = _first(number >= owners.num_steps[target_row])
    if row is not None:
        return owners.fault_at(
            int(step[row]),
            f"waits for step {number[row]} of threadblock {target[row]}, "
            f"which has {owners.num_steps[target_row[row]]} steps",
        )
    own = target_row == owners.threadblock[step]
    row = _first(own & (number >= owners.step_in_threadblock()[step]))
    if row is not None:
        return owners.fault_at(
            int(step[row]), f"waits for step {number[row]} of its own threadblock, which cannot come first"
        )
    return None
