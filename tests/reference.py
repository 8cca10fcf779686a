"""A slow judge of plans, made to be obviously right; it shares nothing with ``hemiola.ir.verify``.

It knows a plan's tables, what an opcode reads and writes, and what a collective means. There are two ways
to the same verdict; tests hold them against each other on random small plans.

**By exploring** every interleaving of a small plan. A state is (program counters, contents of the FIFOs,
memory). A race is a reachable state, with FIFOs that never fill, in which two steps of one rank that
conflict on a chunk are both next and ready. That is the same as being unordered by happens-before, as long
as the plan ends: everything before the two steps, and nothing else, may run first, and then both are next
and nothing holds them (a fused step waits for its message alone, because no FIFO is full); and a step is
ready only after all that happens before it. Steps that stay blocked for ever never touch memory, so of a
plan that stops even then only the deadlock is reported, by both ways.

**By order**, for plans with too many states: the full happens-before relation as one bit mask per step, and
one run. One run is exact because each FIFO has one writer and one reader and finished steps stay finished:
a step that is ready stays ready until it runs, so two ready steps can be swapped and every maximal
interleaving ends in the same program counters. Whether a step is ready never depends on a value. Without a
race, each read sees the same last write in every interleaving, so one run also gives the only final memory.

Races are judged twice: a step is one, and a step of ``count`` chunks is ``count`` steps of one chunk, because a
message may arrive chunk by chunk. Deadlock at K slots is judged twice as well: a step takes one slot, and a step of ``count`` chunks is ``count`` steps
of one chunk. With K = 0 a send and its receive happen at one moment, and a fused step is its receive and
then its send.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from hemiola.ir.plan import Plan
from interleavings import StateLimitError, explore_values, run_stops, stops_somewhere
from plan_network import (
    BrokenError,
    Cell,
    Memory,
    Network,
    Value,
    in_chunks,
    keeps_promises,
    perform,
    read_network,
)

POSTCONDITION, RACE, DEADLOCK = "postcondition", "race", "deadlock"

SMALL = 40
"""Plans of more steps than this are not explored: they would exceed any limit of states."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge says."""

    reasons: frozenset[str]
    """Empty when the plan is correct."""
    explored: bool = False
    """Whether every interleaving was explored."""

    @property
    def ok(self) -> bool:
        """Whether the plan is correct."""
        return not self.reasons


def judge(plan: Plan, slots: int, *, limit: int = 2000) -> Judgement:
    """Whether a plan is correct with ``slots`` slots per connection, and if not, why.

    Every interleaving is explored when there are at most ``limit`` states.
    """
    if plan.both_places:
        both = [judge(plan.for_place(in_place=place), slots, limit=limit) for place in (False, True)]
        return Judgement(both[0].reasons | both[1].reasons, all(one.explored for one in both))
    try:
        network = read_network(plan)
    except BrokenError as broken:
        return Judgement(frozenset({str(broken)}))
    streamed = _race_when_streamed(network)
    if limit and len(network.steps) <= SMALL:
        try:
            return Judgement(judge_by_exploring(network, slots, limit) | streamed, explored=True)
        except StateLimitError:
            pass
    return Judgement(judge_by_order(network, slots) | streamed)


def _race_when_streamed(network: Network) -> frozenset[str]:
    """A race that is there only when the chunks of a step move one by one."""
    if run_stops(network, None, None) or all(step.count <= 1 for step in network.steps):
        return frozenset()
    single = in_chunks(network)
    return frozenset({RACE} if next(unordered_conflicts(single, one_order(single)), None) else ())


def judge_by_exploring(network: Network, slots: int, limit: int) -> frozenset[str]:
    """The reasons against a plan, from all its interleavings."""
    reasons = set()
    if any(stops_somewhere(network, slots, packing, limit) for packing in (None, 1)):
        reasons.add(DEADLOCK)
        if stops_somewhere(network, None, None, limit):
            return frozenset(reasons)
    outcome = explore_values(network, limit)
    if outcome is None:
        reasons.add(RACE)
    elif any(not keeps_promises(network, memory) for memory in outcome):
        reasons.add(POSTCONDITION)
    return frozenset(reasons)


def judge_by_order(network: Network, slots: int) -> frozenset[str]:
    """The reasons against a plan, from the happens-before relation and one run per granularity."""
    reasons = set()
    if any(run_stops(network, slots, packing) for packing in (None, 1)):
        reasons.add(DEADLOCK)
        if run_stops(network, None, None):
            return frozenset(reasons)
    order = one_order(network)
    if next(unordered_conflicts(network, order), None):
        reasons.add(RACE)
    elif not keeps_promises(network, run_values(network, order)):
        reasons.add(POSTCONDITION)
    return frozenset(reasons)


def one_order(network: Network) -> list[int]:
    """The steps in one order that happens-before allows; the plan must not stop."""
    before = network.before()
    after: list[list[int]] = [[] for _ in before]
    for row, earlier in enumerate(before):
        for one in earlier:
            after[one].append(row)
    missing = [len(earlier) for earlier in before]
    order = [row for row, number in enumerate(missing) if not number]
    for row in order:
        for one in after[row]:
            missing[one] -= 1
            if not missing[one]:
                order.append(one)
    assert len(order) == len(network.steps), "a plan that stops has no order"
    return order


def unordered_conflicts(network: Network, order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of steps that conflict and are not ordered by happens-before."""
    before = network.before()
    past = [0] * len(before)
    for row in order:
        for earlier in before[row]:
            past[row] |= past[earlier] | 1 << earlier
    readers: dict[Cell, list[int]] = {}
    writers: dict[Cell, list[int]] = {}
    for row, step in enumerate(network.steps):
        for cell in step.reads():
            readers.setdefault(cell, []).append(row)
        for cell in step.target:
            writers.setdefault(cell, []).append(row)
    for cell, writes in writers.items():
        reads = ((one, other) for one in writes for other in readers.get(cell, ()) if one != other)
        for one, other in (*reads, *combinations(writes, 2)):
            if not (past[one] >> other & 1 or past[other] >> one & 1):
                yield min(one, other), max(one, other)


def run_values(network: Network, order: Iterable[int]) -> Memory:
    """The memory after the steps ran in that order."""
    memory = dict(network.held)
    sent: dict[int, tuple[Value, ...]] = {}
    sender = {
        receive: send
        for connection, receives in network.receives.items()
        for send, receive in zip(network.sends[connection], receives, strict=True)
    }
    for row in order:
        message = sent[sender[row]] if row in sender else ()
        sent[row] = perform(network.steps[row], memory, message)
    return memory
