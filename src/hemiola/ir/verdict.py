"""Verdict: what the proof says of a plan, and the words of each failure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from hemiola._core import BlockedStep, BrokenPromise, ConnectionFault, ConnectionFaultKind, Race, WaitKind
from hemiola.collectives import Buffer, Meaning
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan

BUFFER_NAMES = {Buffer.INPUT: "input", Buffer.OUTPUT: "output", Buffer.SCRATCH: "scratch"}


class FailureKind(Enum):
    """What is wrong with a plan."""

    FORM = "form"
    CONNECTION = "connection"
    POSTCONDITION = "postcondition"
    RACE = "race"
    DEADLOCK = "deadlock"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that is wrong, and where."""

    kind: FailureKind
    message: str
    rank: int | None = None
    threadblock: int | None = None
    """Numbered within the rank."""
    step: int | None = None
    """Numbered within the threadblock."""
    line: str | None = None
    """The line of the user's program, where it is known."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a plan is correct, and what else is worth knowing about it."""

    failures: tuple[Failure, ...]
    slots: int
    """The number of slots per connection that it was judged for."""
    same_expression: bool = False
    """Every rank that is promised a sum adds it up in the same order, so results are equal to the last bit."""
    preserves_input: bool = True
    """No step writes the input of an out-of-place call."""
    postcondition_known: bool = True
    """False for a custom collective of which only the file is known."""

    @property
    def ok(self) -> bool:
        """Correct: the postcondition holds, no race, no deadlock, connections match."""
        return not self.failures


@dataclass(frozen=True, slots=True)
class Place:
    """A step by the numbers that people use."""

    rank: int
    threadblock: int
    step: int
    line: str | None
    text: str


def place_of(plan: Plan, step: int, block: int | None = None) -> Place:
    """Where a row of ``plan.steps`` stands."""
    if block is None:
        block = int(plan.threadblocks["first_step"].searchsorted(step, side="right")) - 1
    rank = int(plan.threadblocks["rank"][block])
    threadblock = block - int(plan.ranks["first_threadblock"][rank])
    number = step - int(plan.threadblocks["first_step"][block])
    line = plan.line_of(step)
    name = TRAITS[int(plan.steps["opcode"][step])].name
    where = f"rank {rank}, threadblock {threadblock}, step {number} ({name}" + (f", {line})" if line else ")")
    return Place(rank, threadblock, number, line, where)


def fail_at(plan: Plan, kind: FailureKind, step: int, message: str) -> Failure:
    """A failure at a row of ``plan.steps``."""
    place = place_of(plan, step)
    return Failure(kind, f"{place.text}: {message}", place.rank, place.threadblock, place.step, place.line)


def explain_overlap(plan: Plan, step: int) -> Failure:
    """Source and destination overlap without being the same."""
    return fail_at(
        plan, FailureKind.FORM, step, "source and destination overlap without being the same chunks"
    )


def explain_connection(plan: Plan, fault: ConnectionFault) -> Failure:
    """A connection whose ends do not match."""
    kind, block, other = fault.kind, fault.block, fault.other_block
    if kind in (ConnectionFaultKind.TWO_SENDERS, ConnectionFaultKind.TWO_RECEIVERS):
        return _explain_two_ends(plan, block, other, sends=kind is ConnectionFaultKind.TWO_SENDERS)
    if kind is ConnectionFaultKind.MORE_SENT:
        peer = int(plan.threadblocks["send_peer"][block])
        return fail_at(
            plan, FailureKind.CONNECTION, fault.step,
            f"sends to rank {peer} on channel {int(plan.threadblocks['channel'][block])}, "
            "but nothing there receives this message",
        )  # fmt: skip
    if kind is ConnectionFaultKind.MORE_RECEIVED:
        peer = int(plan.threadblocks["recv_peer"][other])
        return fail_at(
            plan, FailureKind.CONNECTION, fault.other_step,
            f"receives from rank {peer} on channel {int(plan.threadblocks['channel'][other])}, "
            "but nothing there sends this message",
        )  # fmt: skip
    counts = int(plan.steps["count"][fault.step]), int(plan.steps["count"][fault.other_step])
    return fail_at(
        plan, FailureKind.CONNECTION, fault.step,
        f"sends {counts[0]} chunks, but {place_of(plan, fault.other_step).text}, which takes this message, "
        f"receives {counts[1]}",
    )  # fmt: skip


def _explain_two_ends(plan: Plan, block: int, other: int, *, sends: bool) -> Failure:
    row = plan.threadblocks[block]
    rank, channel = int(row["rank"]), int(row["channel"])
    first = int(plan.ranks["first_threadblock"][rank])
    verb, peer = ("send to", int(row["send_peer"])) if sends else ("receive from", int(row["recv_peer"]))
    return Failure(
        FailureKind.CONNECTION,
        f"rank {rank}: threadblocks {other - first} and {block - first} both {verb} rank {peer} on channel "
        f"{channel}; a connection has one threadblock on each side",
        rank,
        block - first,
    )


def explain_race(plan: Plan, race: Race, chunk: str) -> Failure:
    """Two conflicting accesses that nothing orders."""
    first, second = place_of(plan, race.step), place_of(plan, race.other_step)
    does, other_does = ("writes" if w else "reads" for w in (race.writes, race.other_writes))
    return Failure(
        FailureKind.RACE,
        f"{chunk}: {first.text} {does} it and {second.text} {other_does} it, and nothing orders the two; "
        "a dependency between them is missing",
        second.rank,
        second.threadblock,
        second.step,
        second.line,
    )


def explain_deadlock(plan: Plan, cycle: list[BlockedStep], situation: str) -> Failure:
    """Steps that wait for each other, printed as the cycle that they form."""
    lines = [_describe_wait(plan, blocked) for blocked in cycle]
    place = place_of(plan, cycle[0].step, cycle[0].block)
    shown = lines if len(lines) <= 24 else [*lines[:12], f"... {len(lines) - 24} more ...", *lines[-12:]]
    text = "".join(f"\n  {line}" for line in shown)
    return Failure(
        FailureKind.DEADLOCK,
        f"{situation}, each of these waits for the next, and the last for the first:{text}",
        place.rank,
        place.threadblock,
        place.step,
        place.line,
    )


def _describe_wait(plan: Plan, blocked: BlockedStep) -> str:
    row = plan.threadblocks[blocked.block]
    other = plan.threadblocks[blocked.awaited_block]
    number = blocked.awaited_block - int(plan.ranks["first_threadblock"][int(other["rank"])])
    whom = f"threadblock {number} of rank {int(other['rank'])}"
    channel = f"(channel {int(row['channel'])})"
    what = {
        WaitKind.MESSAGE: f"waits for a message from {whom} {channel}",
        WaitKind.SLOT: f"waits for a free slot to {whom} {channel}",
        WaitKind.DEPENDENCY: f"waits for a step of {whom}",
        WaitKind.RECEIPT: f"waits until {whom} takes its message {channel}",
    }[blocked.kind]
    return f"{place_of(plan, blocked.step, blocked.block).text} {what}"


def explain_promise(plan: Plan, meaning: Meaning, broken: BrokenPromise) -> Failure:
    """A chunk that does not hold what the collective promises."""
    promise = meaning.promised[broken.row]
    rank, index = int(promise["rank"]), int(promise["index"]) + broken.offset
    chunk = f"{BUFFER_NAMES[Buffer(int(promise['buffer']))]}[{index}] of rank {rank}"
    why = ""
    if broken.garbage:
        why = ": it is built on a chunk that nothing has written"
    elif (found := broken.found) is not None:
        wanted, has = Counter(meaning.contributions(broken.row, broken.offset)), Counter(found)
        lists = [
            *_list_contributions("missing", wanted - has),
            *_list_contributions("too much", has - wanted),
        ]
        why = f": {'; '.join(lists)}"
    said = f"{chunk} does not hold what {plan.collective.kind} promises{why}"
    return Failure(FailureKind.POSTCONDITION, said, rank)


def _list_contributions(title: str, contributions: Counter[tuple[int, int]]) -> list[str]:
    if not contributions:
        return []
    names = [f"input[{index}] of rank {rank}" for rank, index in sorted(contributions)]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return [f"{title}: {', '.join(names[:4])}{more}"]
