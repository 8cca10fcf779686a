"""explore: every state that steps can reach from a request's start, with the steps between them.

The same few matrices come up again and again, on many devices and in many states. Each gets a number, a state is a tuple
of numbers, and what the collectives do to a group is worked out once for each tuple that comes up. Every step adds
information, so the states form a graph without cycles.

Beside its matrix a device has a *scattering*: the factors, as bits, over which what it holds has been cut. With factors f
it holds 1 / prod(f[j] for j in the scattering) of the data. That is how bytes are known for any factors, though states
are made for factors of two. It follows from the state: two ways to the same state have the same scatterings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from hemiola.collectives import CollectiveKind
from hemiola.synthesis.groups import Grouping, groupings, groups_of
from hemiola.synthesis.program import STEPS
from hemiola.synthesis.semantics import outcomes
from hemiola.synthesis.state import Rows, is_goal, start_state

ALL_STEPS = (1 << len(STEPS)) - 1
STEPS_IN = tuple(tuple(one for one in range(len(STEPS)) if bits >> one & 1) for bits in range(ALL_STEPS + 1))

Numbers = tuple[int, ...]
"""A state: the number of every device's holding."""
Outcomes = tuple[int, int, tuple[Numbers, ...]]
"""Which collectives a group can run, as bits; the first member's scattering; and what each leaves in the members."""
Holding = tuple[int, int]
"""Matrix, scattering."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A step from one state to another."""

    source: int
    grouping: int
    """In the order of ``groupings``."""
    collective: int
    """In the order of ``CollectiveKind``."""
    scatterings: int
    """Bit s is set where a group has members, before the step, whose scattering is s; the first member's in a broadcast."""
    target: int


@dataclass(slots=True)
class Explored:
    """The states that were reached, the start first, and all steps between them."""

    depth: int
    request: CollectiveKind
    states: list[Numbers] = field(default_factory=list)
    goals: set[int] = field(default_factory=set)
    edges: list[Transition] = field(default_factory=list)


def explore(
    depth: int, request: CollectiveKind = CollectiveKind.ALLREDUCE, most_steps: int | None = None
) -> Explored:
    """All states, or those that ``most_steps`` steps reach; steps that lead on from a goal are left out."""
    return _Exploration(depth, request).run(most_steps)


class _Exploration:
    def __init__(self, depth: int, request: CollectiveKind) -> None:
        self.depth, self.request, self.k = depth, request, 1 << depth
        self.by_chance = 1 << depth
        self.found = Explored(depth, request)
        self.numbers: dict[Holding, int] = {}
        self.holdings: list[Holding] = []
        self.rows = Rows(self.k)
        self.memory: dict[int, dict[Numbers, Outcomes]] = {one.levels: {} for one in groupings(depth)}
        factors = (2,) * depth
        self.ways: list[tuple[Grouping, tuple[Numbers, ...], list[Callable[[Numbers], Numbers]]]] = []
        for grouping in groupings(depth):
            groups = groups_of(grouping, factors)
            self.ways.append((grouping, groups, [itemgetter(*group) for group in groups]))

    def run(self, most_steps: int | None) -> Explored:
        matrices = start_state(self.request, self.k)
        everything = (1 << self.depth) - 1
        scattering = everything if self.request is CollectiveKind.ALLGATHER else 0
        start = tuple(self._number((matrix, scattering if matrix else 0)) for matrix in matrices)
        found, ids = self.found, {start: 0}
        found.states.append(start)
        frontier, steps = [0], 0
        while frontier and (most_steps is None or steps < most_steps):
            steps += 1
            after: list[int] = []
            for source in frontier:
                if is_goal(self.request, tuple(self.holdings[one][0] for one in found.states[source])):
                    found.goals.add(source)
                    continue
                for grouping, collective, scatterings, state in self._successors(found.states[source]):
                    target = ids.get(state)
                    if target is None:
                        target = ids[state] = len(found.states)
                        found.states.append(state)
                        after.append(target)
                    found.edges.append(Transition(source, grouping, collective, scatterings, target))
            frontier = after
        for left in frontier:
            if is_goal(self.request, tuple(self.holdings[one][0] for one in found.states[left])):
                found.goals.add(left)
        return found

    def _successors(self, state: Numbers) -> Iterator[tuple[int, int, int, Numbers]]:
        """Every step that is valid in all of its groups and changes something."""
        for number, (grouping, groups, pickers) in enumerate(self.ways):
            memory, possible, here = self.memory[grouping.levels], ALL_STEPS, []
            for pick in pickers:
                members = pick(state)
                known = memory.get(members)
                if known is None:
                    known = memory[members] = self._work_out(grouping, members)
                possible &= known[0]
                if not possible:
                    break
                here.append(known)
            if not possible:
                continue
            for collective in STEPS_IN[possible]:
                after_all, scatterings = list(state), 0
                for group, (_, before, results) in zip(groups, here, strict=True):
                    scatterings |= 1 << before
                    for device, holding in zip(group, results[collective], strict=True):
                        after_all[device] = holding
                changed = tuple(after_all)
                if changed != state:
                    yield number, collective, scatterings, changed

    def _work_out(self, grouping: Grouping, members: Numbers) -> Outcomes:
        held = [self.holdings[member] for member in members]
        before = held[0][1]
        possible = 0
        results: list[Numbers] = [()] * len(STEPS)
        for collective, matrices in outcomes([matrix for matrix, _ in held], self.rows).items():
            alike = collective is CollectiveKind.BROADCAST or all(
                scattering == before for _, scattering in held
            )
            after = self._scattered(collective, before, grouping.levels) if alike else self.by_chance
            number = STEPS.index(collective)
            possible |= 1 << number
            results[number] = tuple([self._number((matrix, after if matrix else 0)) for matrix in matrices])
        return possible, before, tuple(results)

    def _number(self, holding: Holding) -> int:
        number = self.numbers.get(holding)
        if number is None:
            number = self.numbers[holding] = len(self.holdings)
            self.holdings.append(holding)
        return number

    def _scattered(self, collective: CollectiveKind, before: int, levels: int) -> int:
        if collective is CollectiveKind.REDUCESCATTER:
            return before | levels if not before & levels else self.by_chance
        if collective is CollectiveKind.ALLGATHER:
            return before & ~levels if before & levels == levels else self.by_chance
        return before
