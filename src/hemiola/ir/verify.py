"""The laws of the three levels. ``verify`` is the proof of a Plan; the other two are checked in tests after
every pass, so that a pass that breaks a law is named.

A plan is *correct* when (1) every promised chunk holds exactly what the collective promises, (2) no two
accesses to a chunk, one of them a write, are unordered, (3) it ends with the given number of slots, and
(4) connections match. The proof judges the tables as they are, whoever wrote them.

Threadblocks are sequential, connections are queues with blocking ends, and dependencies only wait for
progress. Such a network is deterministic: whether it ends with K slots, and what it computes when no access
is unordered, is the same for every interleaving. So one symbolic run decides (1) and (3). Order (2) is
judged by program order, dependencies and messages alone; slots give none. A plan that is replayed tile by
tile is covered too: every tile has its own part of every buffer, scratch included, and all queues are empty
when a tile has gone through.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola.collectives import Alias, Buffer, Collective, Meaning
from hemiola.errors import PlanError
from hemiola.ir.chunk_dag import OPERATION, ChunkDag
from hemiola.ir.form import check_form
from hemiola.ir.instruction_dag import InstructionDag, memory_chunks
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import NO_PEER, Plan
from hemiola.ir.rows import as_bytes, meaning_view, plan_view
from hemiola.ir.verdict import (
    BUFFER_NAMES,
    Failure,
    FailureKind,
    Verdict,
    explain_connection,
    explain_deadlock,
    explain_overlap,
    explain_promise,
    explain_race,
)

MAX_FAILURES = 8
"""Of each kind; the rest is usually a consequence."""
MAX_CHUNKS_IN_MEMORY = 1 << 27
MAX_CHUNKS_MOVED = 1 << 30
"""Beyond these a plan is refused before memory or time is taken."""
WRITES = np.array([t.writes_destination for t in TRAITS])


def verify(plan: Plan, *, slots: int | None = None, collective: Collective | None = None) -> Verdict:
    """The verdict on a plan with ``slots`` slots per connection (by default what its protocol has).

    ``collective`` replaces the plan's own meaning, for files that cannot express it.
    """
    if collective is not None:
        plan = replace(plan, collective=collective)
    slots = plan.protocol.slots if slots is None else slots
    if plan.both_places:
        return _join(*(_verify_place(plan.for_place(in_place=place), slots) for place in (True, False)))
    return _verify_place(plan, slots)


def _join(in_place: Verdict, out_of_place: Verdict) -> Verdict:
    said = [
        replace(failure, message=f"{place}: {failure.message}")
        for place, verdict in (("in place", in_place), ("out of place", out_of_place))
        for failure in verdict.failures
    ]
    return replace(
        out_of_place,
        failures=tuple(said),
        same_expression=in_place.same_expression and out_of_place.same_expression,
    )


def _verify_place(plan: Plan, slots: int) -> Verdict:
    try:
        check_form(plan)
    except PlanError as error:
        return Verdict((Failure(FailureKind.FORM, str(error)),), slots)
    meaning = plan.collective.meaning()
    alias = plan.collective.alias() or Alias(
        Buffer.INPUT, Buffer.INPUT, np.full(plan.num_ranks, -1, np.int64)
    )
    chunks = _memory(plan, meaning, alias)
    proof = _core.prove(
        plan_view(plan),
        meaning_view(meaning),
        chunks=chunks.astype(np.uint32).reshape(-1),
        alias_source=int(alias.source),
        alias_target=int(alias.target),
        alias_offset=alias.offset.astype(np.int32),
        slots=slots,
        limit=MAX_FAILURES,
    )
    if proof.too_large:
        raise PlanError(
            f"the {plan.num_steps} steps of this plan cut each other's ranges into so many pieces that it is "
            "too large to prove; use fewer overlapping ranges"
        )
    return Verdict(
        tuple(_failures(plan, meaning, chunks, proof, slots)),
        slots,
        same_expression=proof.same_expression,
        preserves_input=plan.collective.in_place or not _writes_input(plan),
        postcondition_known=len(meaning.promised) > 0 or plan.collective.kind != "custom",
    )


def _memory(plan: Plan, meaning: Meaning, alias: Alias) -> npt.NDArray[np.int64]:
    """Chunks of each buffer of each rank that the plan or its meaning name, shape (ranks, 3)."""
    names = ("input_chunks", "output_chunks", "scratch_chunks")
    chunks = np.stack([plan.ranks[name].astype(np.int64) for name in names], axis=1)
    shared = alias.offset >= 0
    target = chunks[:, alias.target]
    target[shared] = np.maximum(target, alias.offset + chunks[:, alias.source])[shared]
    for rows in (meaning.held, meaning.promised):
        where = (rows["rank"].astype(np.int64), rows["buffer"].astype(np.int64))
        np.maximum.at(chunks, where, rows["index"].astype(np.int64) + rows["count"])
    moved = int(plan.steps["count"].sum(dtype=np.int64))
    if int(chunks.sum()) > MAX_CHUNKS_IN_MEMORY or moved > MAX_CHUNKS_MOVED:
        raise PlanError(
            f"a plan with {int(chunks.sum())} chunks in memory and {moved} moved is too large to prove; "
            f"at most {MAX_CHUNKS_IN_MEMORY} and {MAX_CHUNKS_MOVED} are taken"
        )
    return chunks


def _failures(
    plan: Plan, meaning: Meaning, chunks: npt.NDArray[np.int64], proof: _core.Proof, slots: int
) -> list[Failure]:
    return [
        *(explain_overlap(plan, step) for step in proof.overlaps),
        *(explain_connection(plan, fault) for fault in proof.connection_faults[:MAX_FAILURES]),
        *(explain_deadlock(plan, cycle, situation) for cycle, situation in _deadlocks(proof, slots)),
        *(explain_race(plan, race, _chunk_name(chunks, race.rank, race.chunk)) for race in proof.races),
        *(explain_promise(plan, meaning, broken) for broken in proof.broken),
    ]


def _deadlocks(proof: _core.Proof, slots: int) -> list[tuple[list[_core.BlockedStep], str]]:
    """Each cycle with the situation that it arises in; one that both granularities have, once."""
    with_slots = f"with {slots} slot{'' if slots == 1 else 's'} per connection"
    by_step, by_chunk = proof.stuck_by_step, proof.stuck_by_chunk
    situations = [
        (proof.stuck, "with any number of slots"),
        (by_step, with_slots if by_chunk or not by_step else f"{with_slots}, when a step takes one"),
        ([] if by_step else by_chunk, f"{with_slots}, when a step takes one per chunk"),
    ]
    return [(cycle, situation) for cycle, situation in situations if cycle]


def _chunk_name(chunks: npt.NDArray[np.int64], rank: int, chunk: int) -> str:
    base = np.concatenate([[0], np.cumsum(chunks.reshape(-1))])
    buffer = int(np.searchsorted(base, chunk, side="right")) - 1 - 3 * rank
    return f"{BUFFER_NAMES[Buffer(buffer)]}[{chunk - int(base[3 * rank + buffer])}] of rank {rank}"


def _writes_input(plan: Plan) -> bool:
    steps = plan.steps
    return bool(np.any(WRITES[steps["opcode"]] & (steps["dst_buffer"] == Buffer.INPUT)))


def check_chunk_dag(dag: ChunkDag) -> None:
    """Raise PlanError unless every row is in range and running the rows in order achieves the collective."""
    rows, meaning = dag.operations, dag.collective.meaning()
    chunks = memory_chunks(dag.collective, dag.scratch_chunks)
    sizes = chunks.astype(np.int64).reshape(-1, 3)
    if rows.dtype != OPERATION:
        raise PlanError(f"a ChunkDag's rows are OPERATIONs, not {rows.dtype}")
    for side in ("src", "dst"):
        rank, buffer = rows[f"{side}_rank"].astype(np.int64), rows[f"{side}_buffer"].astype(np.int64)
        _require((rank < dag.num_ranks) & (buffer < 3), f"{side} names no buffer")
        end = rows[f"{side}_index"].astype(np.int64) + rows["count"]
        _require(end <= sizes[rank, buffer], f"{side} is outside its buffer")
    _require(rows["count"] >= 1, "it moves no chunk")
    broken = _core.run_operations(as_bytes(rows), chunks, meaning_view(meaning))
    if broken:
        raise PlanError(
            f"the operations in their order do not achieve {dag.collective.kind}: promise {broken[0]}"
        )


def check_instruction_dag(dag: InstructionDag) -> None:
    """Raise PlanError unless peers fit opcodes and running the rows in order achieves the collective."""
    rows, meaning = dag.instructions, dag.collective.meaning()
    receives = np.array([t.receives for t in TRAITS])[rows["opcode"]]
    sends = np.array([t.sends for t in TRAITS])[rows["opcode"]]
    _require((rows["recv_peer"] != NO_PEER) == receives, "it receives without a peer, or has one for nothing")
    _require((rows["send_peer"] != NO_PEER) == sends, "it sends without a peer, or has one for nothing")
    ran = _core.run_instructions(as_bytes(rows), dag.num_operations, dag.chunks(), meaning_view(meaning))
    if ran.stuck is not None:
        raise PlanError(f"instruction {ran.stuck} receives a message that was not sent before it")
    if ran.broken:
        raise PlanError(
            f"the instructions in their order do not achieve {dag.collective.kind}: promise {ran.broken[0]}"
        )
    if dag.waits_first is not None and dag.waits_on is not None:
        times = dag.waits_first[1:].astype(np.int64) - dag.waits_first[:-1]
        waiting = np.repeat(np.arange(len(rows)), times)
        _require(dag.waits_on < waiting, "it waits for a later one")
        _require(rows["rank"][dag.waits_on] == rows["rank"][waiting], "it waits for another rank")


def _require(holds: npt.NDArray[np.bool_], what: str) -> None:
    if not holds.all():
        raise PlanError(f"row {int(np.argmin(holds))}: {what}")
