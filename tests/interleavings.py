"""Interleavings of a plan's steps: one of them, or all of them, with finite or endless FIFOs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from plan_network import Cell, Connection, Memory, Network, Step, Value, perform

Counters = tuple[int, ...]
"""Per threadblock, how many of its actions are done."""
Message = tuple[Value, ...]
State = tuple[Counters, tuple[tuple[Message, ...], ...], tuple[Value, ...]]
"""Program counters, contents of the FIFOs, memory."""


class StateLimitError(Exception):
    """More states than the caller wants to explore."""


@dataclass(frozen=True, slots=True)
class Action:
    """An indivisible part of a step."""

    step: int
    takes: bool
    gives: bool


class Machine:
    """A network's control: who may move in a state of the program counters.

    ``slots`` None is endless, and with ``packing`` None every step is one message; otherwise a message carries at most
    that many chunks of a step. How full a FIFO is follows from the counters of its two ends.
    """

    def __init__(self, network: Network, slots: int | None, packing: int | None) -> None:
        self.slots = slots
        self.actions = [
            [action for row in block for action in _actions(network.steps[row], row, slots, packing)]
            for block in network.blocks
        ]
        self.end: Counters = tuple(len(actions) for actions in self.actions)
        self.taken = [_count_before(action.takes for action in actions) for actions in self.actions]
        self.given = [_count_before(action.gives for action in actions) for actions in self.actions]
        self.waits = self._find_waits(network)
        self.sender: dict[int, int] = {}
        self.receiver: dict[int, int] = {}
        for connection, sends in network.sends.items():
            sender = network.steps[sends[0]].threadblock
            receiver = network.steps[network.receives[connection][0]].threadblock
            self.sender[receiver], self.receiver[sender] = sender, receiver

    def _find_waits(self, network: Network) -> list[list[tuple[int, int]]]:
        """Per step, (threadblock, how many of its actions must be done) for each dependency."""
        done = {
            action.step: position + 1 for actions in self.actions for position, action in enumerate(actions)
        }
        return [[(network.steps[row].threadblock, done[row]) for row in step.waits] for step in network.steps]

    def movers(self, at: Sequence[int], block: int) -> tuple[int, ...]:
        """The threadblocks that move when ``block`` takes the lead; none when it has to wait.

        Without slots a send and its receive are one move of two threadblocks, led by the sender.
        """
        action = self._next(at, block)
        if action is None:
            return ()
        if self.slots == 0 and action.takes:
            return ()
        if self.slots == 0 and action.gives:
            partner = self.receiver[block]
            answer = self._next(at, partner)
            return (block, partner) if answer is not None and answer.takes else ()
        if action.takes and not self._in_flight(at, self.sender[block], block):
            return ()
        if action.gives and self.slots is not None:
            full = self._in_flight(at, block, self.receiver[block]) >= self.slots
            return () if full else (block,)
        return (block,)

    def _next(self, at: Sequence[int], block: int) -> Action | None:
        """The next action of a threadblock, if its dependencies are met."""
        if at[block] == self.end[block]:
            return None
        action = self.actions[block][at[block]]
        met = all(at[other] >= number for other, number in self.waits[action.step])
        return action if met else None

    def _in_flight(self, at: Sequence[int], sender: int, receiver: int) -> int:
        return self.given[sender][at[sender]] - self.taken[receiver][at[receiver]]


def _actions(step: Step, row: int, slots: int | None, packing: int | None) -> list[Action]:
    takes, gives = step.takes is not None, step.gives is not None
    times = ceil(step.count / packing) if packing is not None and (takes or gives) else 1
    if slots == 0 and takes and gives:
        return [Action(row, True, False), Action(row, False, True)] * times
    return [Action(row, takes, gives)] * times


def _count_before(flags: Iterator[bool]) -> list[int]:
    return list(accumulate(flags, initial=0))


def run_stops(network: Network, slots: int | None, packing: int | None) -> bool:
    """Whether one interleaving, which stands for all, stops before its end."""
    machine = Machine(network, slots, packing)
    at = [0] * len(machine.end)
    moved = True
    while moved:
        moved = False
        for block in range(len(at)):
            while movers := machine.movers(at, block):
                moved = True
                for mover in movers:
                    at[mover] += 1
    return tuple(at) != machine.end


def stops_somewhere(network: Network, slots: int | None, packing: int | None, limit: int) -> bool:
    """Whether some interleaving stops before its end; every reachable state is visited."""
    machine = Machine(network, slots, packing)
    start: Counters = (0,) * len(machine.end)
    seen, todo = {start}, [start]
    stops = False
    while todo:
        at = todo.pop()
        nexts = [_advance(at, movers) for block in range(len(at)) if (movers := machine.movers(at, block))]
        stops = stops or (not nexts and at != machine.end)
        fresh = [state for state in nexts if state not in seen]
        seen.update(fresh)
        todo += fresh
        if len(seen) > limit:
            raise StateLimitError
    return stops


def _advance(at: Counters, movers: tuple[int, ...]) -> Counters:
    return tuple(counter + (block in movers) for block, counter in enumerate(at))


def explore_values(network: Network, limit: int, *, stop_at_race: bool = True) -> list[Memory] | None:
    """Every final memory that some interleaving with endless FIFOs leads to; None when there is a race.

    The plan must not stop. With ``stop_at_race`` off, racing plans give all that they may end in.
    """
    machine = Machine(network, None, None)
    fifos = sorted(network.sends)
    cells = sorted(
        {cell for step in network.steps for cell in (*step.source, *step.target)} | set(network.held)
    )
    start: State = (
        (0,) * len(machine.end), ((),) * len(fifos), tuple(network.held.get(cell) for cell in cells),
    )  # fmt: skip
    seen, todo, finals = {start}, [start], []
    while todo:
        state = todo.pop()
        ready = [block for block in range(len(state[0])) if machine.movers(state[0], block)]
        rows = [machine.actions[block][state[0][block]].step for block in ready]
        if stop_at_race and conflict_among([network.steps[row] for row in rows]):
            return None
        if not ready:
            finals.append(dict(zip(cells, state[2], strict=True)))
        for row in rows:
            following = _perform_in(state, network.steps[row], fifos, cells)
            if following not in seen:
                seen.add(following)
                todo.append(following)
        if len(seen) > limit:
            raise StateLimitError
    return finals


def conflict_among(steps: Sequence[Step]) -> bool:
    """Whether two of the steps, all ready in one state, touch a cell that one of them writes."""
    return any(one.conflicts(other) for k, one in enumerate(steps) for other in steps[:k])


def _perform_in(state: State, step: Step, fifos: list[Connection], cells: list[Cell]) -> State:
    """The state after ``step`` has run."""
    at, queues = list(state[0]), list(state[1])
    memory = dict(zip(cells, state[2], strict=True))
    message: Message = ()
    if step.takes is not None:
        fifo = fifos.index(step.takes)
        message, queues[fifo] = queues[fifo][0], queues[fifo][1:]
    sent = perform(step, memory, message)
    if step.gives is not None:
        fifo = fifos.index(step.gives)
        queues[fifo] = (*queues[fifo], sent)
    at[step.threadblock] += 1
    return tuple(at), tuple(queues), tuple(memory[cell] for cell in cells)
