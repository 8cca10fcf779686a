"""Small changes to plans, each of which may or may not make a correct plan wrong.

A plan is unpacked into a Draft, nested lists that are easy to change, and packed again. Drafts also serve
to write small plans by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from hemiola.collectives import Collective
from hemiola.ir.opcodes import TRAITS, Opcode
from hemiola.ir.plan import DEPENDENCY, NO_PEER, RANK, STEP, THREADBLOCK, Plan, Protocol

Place = tuple[int, int]
"""Buffer and index."""
ATTEMPTS = 20
"""How often a mutation is tried before the plan is said to offer no place for it."""


@dataclass(slots=True, eq=False)
class DraftStep:
    """A step with its dependencies as (threadblock of the rank, step)."""

    opcode: Opcode
    source: Place = (0, 0)
    target: Place = (0, 0)
    count: int = 1
    waits: list[tuple[int, int]] = field(default_factory=list)
    line: int = 0


@dataclass(slots=True, eq=False)
class DraftBlock:
    """A threadblock with its steps."""

    rank: int
    send_peer: int
    recv_peer: int
    channel: int
    steps: list[DraftStep]


@dataclass(slots=True, eq=False)
class Draft:
    """A plan as nested lists; ``blocks`` are grouped by rank."""

    plan: Plan
    blocks: list[DraftBlock]

    def siblings(self, block: DraftBlock) -> list[DraftBlock]:
        """The threadblocks of the same rank."""
        return [other for other in self.blocks if other.rank == block.rank]


def unpack(plan: Plan) -> Draft:
    """The plan, ready to be changed."""
    pairs = plan.dependencies.tolist()
    rows = plan.steps.tolist()
    blocks = []
    for number, block in enumerate(plan.threadblocks):
        steps = []
        for row in plan.steps_of(number):
            step = dict(zip(STEP.names or (), rows[row], strict=True))
            waits = [pairs[dependency] for dependency in plan.dependencies_of(row)]
            source = (step["src_buffer"], step["src_index"])
            target = (step["dst_buffer"], step["dst_index"])
            steps.append(
                DraftStep(Opcode(step["opcode"]), source, target, step["count"], waits, step["line"])
            )
        peers = int(block["send_peer"]), int(block["recv_peer"])
        blocks.append(DraftBlock(int(block["rank"]), *peers, int(block["channel"]), steps))
    return Draft(plan, blocks)


def pack(draft: Draft) -> Plan:
    """The draft as a plan, with consistent tables."""
    ranks = draft.plan.ranks.copy()
    ranks["first_threadblock"] = np.searchsorted(
        [block.rank for block in draft.blocks], np.arange(len(ranks))
    )
    blocks: list[tuple[int, ...]] = []
    steps: list[tuple[int, ...]] = []
    dependencies: list[tuple[int, int]] = []
    for block in draft.blocks:
        blocks.append((block.rank, block.send_peer, block.recv_peer, block.channel, len(steps)))
        for step in block.steps:
            places = (step.source[0], step.target[0], 0, step.source[1], step.target[1])
            steps.append((step.opcode, *places, step.count, len(dependencies), step.line))
            dependencies += step.waits
    return replace(
        draft.plan,
        ranks=ranks,
        threadblocks=np.array(blocks, THREADBLOCK),
        steps=np.array(steps, STEP),
        dependencies=np.array(dependencies, DEPENDENCY),
    )


def plan_of(
    collective: Collective,
    blocks: Sequence[DraftBlock],
    *,
    scratch: int = 0,
    protocol: Protocol = Protocol.SIMPLE,
) -> Plan:
    """A plan written by hand; ``scratch`` is the size of every rank's scratch buffer."""
    ranks = np.zeros(collective.num_ranks, RANK)
    ranks["input_chunks"], ranks["output_chunks"] = collective.stored_chunks()
    ranks["scratch_chunks"] = scratch
    empty = np.zeros(0, THREADBLOCK), np.zeros(0, STEP), np.zeros(0, DEPENDENCY)
    plan = Plan("by_hand", collective, protocol, ranks, *empty)
    return pack(Draft(plan, sorted(blocks, key=lambda block: block.rank)))


def mutate(plan: Plan, kind: str, random: Random) -> Plan | None:
    """The plan with one change of that kind; None where it has no place for one."""
    before = fingerprint(plan)
    for _ in range(ATTEMPTS):
        if not plan.num_steps or (kind == "remove_dependency" and not len(plan.dependencies)):
            return None
        draft = unpack(plan)
        KINDS[kind](draft, random)
        mutant = pack(draft)
        if fingerprint(mutant) != before:
            return mutant
    return None


def fingerprint(plan: Plan) -> tuple[bytes, ...]:
    """The bytes of the tables: two plans with the same fingerprint do the same."""
    return tuple(rows.tobytes() for rows in (plan.ranks, plan.threadblocks, plan.steps, plan.dependencies))


def _any_step(draft: Draft, random: Random) -> tuple[DraftBlock, int]:
    """A threadblock and the number of a step in it, every step of the plan being equally likely."""
    block = random.choices(draft.blocks, [len(block.steps) for block in draft.blocks])[0]
    return block, random.randrange(len(block.steps))


def drop_step(draft: Draft, random: Random) -> None:
    """Leave out a step; half of the time, a send and its receive, so that the rest still matches."""
    block, number = _any_step(draft, random)
    step = block.steps[number]
    ends = _other_ends(draft, block, step) if random.random() < 0.5 else []
    _drop(draft, block, number, keep=random.random() < 0.1)
    for other_block, other in ends:
        if not _is_fused(step) and not _is_fused(other):
            _drop(draft, other_block, other_block.steps.index(other), keep=False)


def _is_fused(step: DraftStep) -> bool:
    return TRAITS[step.opcode].sends and TRAITS[step.opcode].receives


def _drop(draft: Draft, block: DraftBlock, number: int, *, keep: bool) -> None:
    """Who waited for the step waits for the one before it; with ``keep``, for what has its number now."""
    position = draft.siblings(block).index(block)
    del block.steps[number]
    for step in (step for sibling in draft.siblings(block) for step in sibling.steps):
        moved = [_after_drop(wait, (position, number), keep) for wait in step.waits]
        step.waits = [wait for wait in moved if wait[1] >= 0]


def _after_drop(wait: tuple[int, int], dropped: tuple[int, int], keep: bool) -> tuple[int, int]:
    later = wait[0] == dropped[0] and (wait[1] > dropped[1] or (wait[1] == dropped[1] and not keep))
    return (wait[0], wait[1] - 1) if later else wait


def change_offset(draft: Draft, random: Random) -> None:
    """Move the source or the destination of a step, at times out of its buffer."""
    block, number = _any_step(draft, random)
    step = block.steps[number]
    traits = TRAITS[step.opcode]
    if traits.reads_source and (not traits.writes_destination or random.random() < 0.5):
        step.source = _moved(draft, block.rank, step.source, random)
    elif traits.writes_destination:
        step.target = _moved(draft, block.rank, step.target, random)


def _moved(draft: Draft, rank: int, place: Place, random: Random) -> Place:
    names = ("input_chunks", "output_chunks", "scratch_chunks")
    size = int(draft.plan.ranks[names[place[0]]][rank])
    index = random.choice([place[1] + 1, place[1] - 1, random.randrange(size + 1)])
    return (place[0], max(index, 0))


def change_peer(draft: Draft, random: Random) -> None:
    """Let a threadblock talk to another rank, or let two of a rank and channel exchange their peers."""
    block, _ = _any_step(draft, random)
    end = random.choice(
        [end for end in ("send_peer", "recv_peer") if getattr(block, end) != NO_PEER] or ["send_peer"]
    )
    others = [
        other
        for other in draft.siblings(block)
        if other.channel == block.channel and getattr(other, end) not in (NO_PEER, getattr(block, end))
    ]
    if others and random.random() < 0.6:
        other = random.choice(others)
        mine, theirs = getattr(block, end), getattr(other, end)
        setattr(block, end, theirs)
        setattr(other, end, mine)
    else:
        setattr(block, end, random.randrange(NO_PEER, draft.plan.num_ranks))


def change_count(draft: Draft, random: Random) -> None:
    """Make a step longer or shorter, half of the time together with the other end of its message."""
    block, number = _any_step(draft, random)
    step = block.steps[number]
    shorter = random.randrange(step.count) if step.count > 1 else 1 - (random.random() < 0.1)
    count = random.choice([shorter, step.count + 1, step.count + random.randrange(1, 4)])
    if random.random() < 0.5:
        for _, end in _other_ends(draft, block, step):
            end.count = count
    step.count = count


def _other_ends(draft: Draft, block: DraftBlock, step: DraftStep) -> list[tuple[DraftBlock, DraftStep]]:
    """The step that takes what this one gives, and the one that gives what it takes, where they are."""
    ends = []
    for other in (other for other in draft.blocks if other.channel == block.channel):
        if (other.rank, other.recv_peer) == (block.send_peer, block.rank):
            ends += [(other, end) for end in _matching(_giving(block), step, _taking(other))]
        if (other.rank, other.send_peer) == (block.recv_peer, block.rank):
            ends += [(other, end) for end in _matching(_taking(block), step, _giving(other))]
    return ends


def _giving(block: DraftBlock) -> list[DraftStep]:
    return [step for step in block.steps if TRAITS[step.opcode].sends]


def _taking(block: DraftBlock) -> list[DraftStep]:
    return [step for step in block.steps if TRAITS[step.opcode].receives]


def _matching(mine: list[DraftStep], step: DraftStep, theirs: list[DraftStep]) -> list[DraftStep]:
    return [other for one, other in zip(mine, theirs, strict=False) if one is step]


def change_type(draft: Draft, random: Random) -> None:
    """Give a step another opcode, mostly one that sends and receives as before."""
    block, number = _any_step(draft, random)
    step = block.steps[number]
    old = TRAITS[step.opcode]
    alike = [o for o in Opcode if (TRAITS[o].sends, TRAITS[o].receives) == (old.sends, old.receives)]
    new = random.choice(alike if random.random() < 0.7 else list(Opcode))
    traits = TRAITS[new]
    source = step.source if old.reads_source else step.target
    target = step.target if old.writes_destination else step.source
    step.opcode = new
    step.source = source if traits.reads_source else (0, 0)
    step.target = target if traits.writes_destination else (0, 0)


def remove_dependency(draft: Draft, random: Random) -> None:
    """Let a step wait for one thing less."""
    waiting = [step for block in draft.blocks for step in block.steps if step.waits]
    if waiting:
        step = random.choice(waiting)
        step.waits.pop(random.randrange(len(step.waits)))


def swap_steps(draft: Draft, random: Random) -> None:
    """Exchange two steps of a threadblock, mostly neighbours; who waits for them may follow them."""
    block, first = _any_step(draft, random)
    second = first + 1 if random.random() < 0.7 else random.randrange(len(block.steps))
    if second >= len(block.steps) or first == second:
        return
    block.steps[first], block.steps[second] = block.steps[second], block.steps[first]
    if random.random() < 0.5:
        position = draft.siblings(block).index(block)
        follow = {(position, first): (position, second), (position, second): (position, first)}
        for step in (step for sibling in draft.siblings(block) for step in sibling.steps):
            step.waits = [follow.get(wait, wait) for wait in step.waits]


KINDS: dict[str, Callable[[Draft, Random], None]] = {
    "drop_step": drop_step,
    "change_offset": change_offset,
    "change_peer": change_peer,
    "change_count": change_count,
    "change_type": change_type,
    "remove_dependency": remove_dependency,
    "swap_steps": swap_steps,
}
"""Every kind of mutation; each changes a draft, or leaves it alone where the chosen place offers nothing."""
