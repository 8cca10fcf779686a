"""A plan as the reference judge sees it: steps with their operands as cells, and what a step does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce

from hemiola.collectives import Buffer
from hemiola.ir.opcodes import TRAITS, OpcodeTraits
from hemiola.ir.plan import NO_PEER, Plan

FORM, CONNECTION = "form", "connection"

Cell = tuple[int, int, int]
"""One chunk's memory: rank, buffer, index."""
Connection = tuple[int, int, int]
"""Source rank, destination rank, channel."""
Value = frozenset[tuple[tuple[int, int], int]] | None
"""A multiset of contributions (rank, input chunk) as (contribution, how often); None is garbage."""
Memory = dict[Cell, Value]


class BrokenError(Exception):
    """A plan that cannot be run at all; the argument is the reason."""


@dataclass(frozen=True, slots=True)
class Step:
    """One row of a plan's steps with its operands as cells."""

    traits: OpcodeTraits
    threadblock: int
    """A row of the plan's threadblocks."""
    takes: Connection | None
    gives: Connection | None
    source: tuple[Cell, ...]
    target: tuple[Cell, ...]
    waits: tuple[int, ...]
    """Rows of the plan's steps."""
    count: int

    def reads(self) -> set[Cell]:
        """Cells whose value matters."""
        return set(self.source) | (set(self.target) if self.traits.reads_destination else set())

    def conflicts(self, other: Step) -> bool:
        """Whether both touch a cell and one of them writes it."""
        mine, theirs = set(self.target), set(other.target)
        return bool(mine & (theirs | other.reads()) or theirs & self.reads())


@dataclass(frozen=True, slots=True)
class Network:
    """A plan whose form and connections are right."""

    steps: tuple[Step, ...]
    blocks: tuple[range, ...]
    """Rows of steps per threadblock."""
    sends: dict[Connection, list[int]]
    receives: dict[Connection, list[int]]
    """Rows of steps per connection, in order."""
    held: Memory
    promised: Memory

    def before(self) -> list[list[int]]:
        """Per step, the steps that happen directly before it."""
        result = [list(step.waits) for step in self.steps]
        for block in self.blocks:
            for row in block[1:]:
                result[row].append(row - 1)
        for connection, receives in self.receives.items():
            for send, receive in zip(self.sends[connection], receives, strict=True):
                result[receive].append(send)
        return result


def in_chunks(network: Network) -> Network:
    """The same plan with every step of several chunks as so many steps of one, which is how it may be run."""
    units: list[range] = []
    for step in network.steps:
        begin = units[-1].stop if units else 0
        units.append(range(begin, begin + max(1, step.count)))
    steps = [
        replace(
            step,
            source=step.source[k : k + 1],
            target=step.target[k : k + 1],
            waits=tuple(units[wait][-1] for wait in step.waits) if k == 0 else (),
            count=min(1, step.count),
        )
        for row, step in enumerate(network.steps)
        for k in range(len(units[row]))
    ]

    def spread(rows: list[int]) -> list[int]:
        return [unit for row in rows for unit in units[row]]

    blocks = tuple(range(units[b[0]].start, units[b[-1]].stop) if b else range(0) for b in network.blocks)
    sends, receives = ({c: spread(r) for c, r in ends.items()} for ends in (network.sends, network.receives))
    return Network(tuple(steps), blocks, sends, receives, network.held, network.promised)


def require(condition: bool, reason: str) -> None:
    """Refuse the plan for ``reason`` unless ``condition`` holds."""
    if not condition:
        raise BrokenError(reason)


def read_network(plan: Plan) -> Network:
    """The plan with its operands resolved, or BrokenError with the reason against its form or connections."""
    require(_is_grouped(plan.ranks["first_threadblock"].tolist(), len(plan.threadblocks)), FORM)
    require(_is_grouped(plan.threadblocks["first_step"].tolist(), len(plan.steps)), FORM)
    require(_is_grouped(plan.steps["first_dependency"].tolist(), len(plan.dependencies)), FORM)
    blocks = tuple(plan.steps_of(row) for row in range(len(plan.threadblocks)))
    steps = tuple(_read_steps(plan, blocks))
    sends: dict[Connection, list[int]] = {}
    receives: dict[Connection, list[int]] = {}
    for row, step in enumerate(steps):
        if step.gives is not None:
            sends.setdefault(step.gives, []).append(row)
        if step.takes is not None:
            receives.setdefault(step.takes, []).append(row)
    _check_connections(plan, steps, sends, receives)
    return Network(steps, blocks, sends, receives, *_meaning(plan))


def _is_grouped(firsts: list[int], total: int) -> bool:
    return not firsts or (firsts[0] == 0 and firsts == sorted(firsts) and firsts[-1] <= total)


def _read_steps(plan: Plan, blocks: Sequence[range]) -> Iterator[Step]:
    cells = Cells(plan)
    fields = ("opcode", "src_buffer", "src_index", "dst_buffer", "dst_index", "count")
    rows = list(zip(*(plan.steps[field].tolist() for field in fields), strict=True))
    waits = _read_waits(plan, blocks)
    for rank in range(plan.num_ranks):
        for block in plan.threadblocks_of(rank):
            takes, gives = _read_peers(plan, rank, block)
            for row in blocks[block]:
                opcode, src_buffer, src_index, dst_buffer, dst_index, count = rows[row]
                require(opcode < len(TRAITS), FORM)
                traits = TRAITS[opcode]
                uses_target = traits.writes_destination
                source = cells.resolve(rank, src_buffer, src_index, count) if traits.reads_source else ()
                target = cells.resolve(rank, dst_buffer, dst_index, count) if uses_target else ()
                require(source == target or not set(source) & set(target), FORM)
                require(not traits.receives or takes is not None, FORM)
                require(not traits.sends or gives is not None, FORM)
                require(count > 0 or traits.name == "nop", FORM)
                yield Step(
                    traits, block, takes if traits.receives else None, gives if traits.sends else None,
                    source, target, waits[row], count,
                )  # fmt: skip


def _read_peers(plan: Plan, rank: int, block: int) -> tuple[Connection | None, Connection | None]:
    row = plan.threadblocks[block]
    channel, recv_peer, send_peer = int(row["channel"]), int(row["recv_peer"]), int(row["send_peer"])
    require(int(row["rank"]) == rank, FORM)
    for peer in (recv_peer, send_peer):
        require(peer == NO_PEER or (0 <= peer < plan.num_ranks and peer != rank), FORM)
    takes = None if recv_peer == NO_PEER else (recv_peer, rank, channel)
    gives = None if send_peer == NO_PEER else (rank, send_peer, channel)
    return takes, gives


def _read_waits(plan: Plan, blocks: Sequence[range]) -> list[tuple[int, ...]]:
    pairs = plan.dependencies.tolist()
    waits: list[tuple[int, ...]] = []
    for rank in range(plan.num_ranks):
        mine = [blocks[block] for block in plan.threadblocks_of(rank)]
        for row in (row for block in mine for row in block):
            wanted = [pairs[dependency] for dependency in plan.dependencies_of(row)]
            require(all(block < len(mine) and step < len(mine[block]) for block, step in wanted), FORM)
            waits.append(tuple(mine[block][step] for block, step in wanted))
    return waits


class Cells:
    """Names of memory: a buffer's name, resolved through the alias of an in-place plan."""

    def __init__(self, plan: Plan) -> None:
        fields = ("input_chunks", "output_chunks", "scratch_chunks")
        claimed = [plan.ranks[field].tolist() for field in fields]
        for buffer, given in enumerate(plan.collective.stored_chunks()):
            claimed[buffer] = [
                min(pair) for pair in zip(claimed[buffer], _given(plan, buffer, given), strict=True)
            ]
        self.sizes = list(zip(*claimed, strict=True))
        named = [sizes.tolist() for sizes in plan.collective.named_chunks()]
        self.named = list(zip(*named, strict=True))
        alias = plan.collective.alias()
        self.alias = None if alias is None else (int(alias.source), int(alias.target), alias.offset.tolist())

    def resolve(self, rank: int, buffer: int, index: int, count: int) -> tuple[Cell, ...]:
        """The cells of ``count`` neighbouring chunks."""
        if self.alias is not None and buffer == self.alias[0] and self.alias[2][rank] >= 0:
            require(index + count <= self.named[rank][buffer], FORM)
            buffer, index = self.alias[1], index + self.alias[2][rank]
        require(buffer < len(Buffer) and index + count <= self.sizes[rank][buffer], FORM)
        return tuple((rank, buffer, i) for i in range(index, index + count))


def _given(plan: Plan, buffer: int, stored: Iterable[int]) -> list[int]:
    """How many chunks of a buffer the caller gives each rank, by whatever name."""
    named = plan.collective.named_chunks()[buffer].tolist()
    return [max(int(one), other) for one, other in zip(stored, named, strict=True)]


def _check_connections(
    plan: Plan,
    steps: Sequence[Step],
    sends: dict[Connection, list[int]],
    receives: dict[Connection, list[int]],
) -> None:
    """One sender, one receiver, and the k-th message of both sides of the same size."""
    columns = ("rank", "send_peer", "recv_peer", "channel")
    rows = list(zip(*(plan.threadblocks[field].tolist() for field in columns), strict=True))
    senders = Counter((rank, send_peer, channel) for rank, send_peer, _, channel in rows)
    receivers = Counter((recv_peer, rank, channel) for rank, _, recv_peer, channel in rows)
    for connection in sends.keys() | receives.keys():
        require(senders[connection] == receivers[connection] == 1, CONNECTION)
        sent = [steps[row].count for row in sends.get(connection, ())]
        received = [steps[row].count for row in receives.get(connection, ())]
        require(sent == received, CONNECTION)


def _meaning(plan: Plan) -> tuple[Memory, Memory]:
    """What the memory holds before, and what it must hold after."""
    meaning = plan.collective.meaning()
    held: Memory = {chunk: frozenset({(origin, 1)}) for chunk, origin in meaning.holdings()}
    promised: Memory = {chunk: frozenset((o, 1) for o in origins) for chunk, origins in meaning.promises()}
    return held, promised


@cache
def add(left: Value, right: Value) -> Value:
    """The sum of two multisets; garbage spoils everything."""
    if left is None or right is None:
        return None
    return frozenset((Counter(dict(left)) + Counter(dict(right))).items())


def perform(step: Step, memory: Memory, message: Sequence[Value]) -> tuple[Value, ...]:
    """Do a step on ``memory``; what it sends."""
    sent = []
    for unit in range(0 if step.traits.name == "nop" else step.count):
        operands = [message[unit]] if step.traits.receives else []
        operands += [memory.get(step.source[unit])] if step.traits.reads_source else []
        operands += [memory.get(step.target[unit])] if step.traits.reads_destination else []
        result = reduce(add, operands)
        if step.traits.writes_destination:
            memory[step.target[unit]] = result
        sent.append(result)
    return tuple(sent) if step.traits.sends else ()


def keeps_promises(network: Network, memory: Memory) -> bool:
    """Whether every promised chunk holds exactly its set."""
    return all(memory.get(cell) == value for cell, value in network.promised.items())
