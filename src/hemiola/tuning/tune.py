"""tune: the best plan of the library for every size of a collective on a system, and why.

At every size, every candidate of one instance is timed. Before that, its cost card says how fast it can be at best, with any
number of instances: the bytes of its busiest rank over the fastest link of a rank, and its steps times the shortest message;
who cannot win by that is not timed. The best few then get twice as many instances as long as that makes them faster. What
the runtime would have done anyway stays unless another plan is clearly faster, and so does the choice of the size before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from hemiola.errors import LimitError, TopologyError
from hemiola.ir.plan import Plan
from hemiola.runtime.plans.plan_source import PlanRequest
from hemiola.simulator.bounds import Bound, lower_bound
from hemiola.simulator.replay import simulate
from hemiola.simulator.tiling import Tiling
from hemiola.simulator.units_of_ranks import UnitsOfRanks, levels_of_units
from hemiola.topology.system import System
from hemiola.tuning.candidates import Candidate, Workshop
from hemiola.tuning.library_plans import LibraryPlans
from hemiola.units import format_bytes

CLEARLY = 0.02
"""A plan replaces another only where it takes this much less time."""
MOST_CLIMBERS = 4
"""Candidates that are tried with more instances."""
TILES = (16 << 10, 64 << 10, 128 << 10)
"""Smaller messages that are tried for the plan of a window, beside those that the runtime chooses."""

Cost = Callable[[Plan, int, int], float]
"""Seconds of a plan for an input of so many bytes a rank, in messages of so many bytes, 0 as the runtime chooses."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A plan at a size; without a candidate it is what the runtime takes by itself."""

    candidate: Candidate | None
    plan: Plan
    seconds: float

    @property
    def name(self) -> str:
        """For people."""
        return self.plan.name if self.candidate is None else str(self.candidate)


@dataclass(frozen=True, slots=True)
class Row:
    """What was found at one size."""

    num_bytes: int
    chosen: Timed
    default: Timed
    second: Timed | None
    """The best of other algorithms than the chosen."""
    stock: Timed | None
    """The best of those that NCCL has too."""
    bound: Bound


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring sizes with the same plan."""

    min_bytes: int
    max_bytes: int
    rows: tuple[Row, ...]
    tile_bytes: int
    """Messages of this size are faster than what the runtime chooses; 0 where they are not."""
    why: str

    @property
    def chosen(self) -> Timed:
        """The plan, timed at the smallest size."""
        return self.rows[0].chosen


STOCK = {
    "allreduce_ring": "ring",
    "allreduce_double_binary_tree": "tree",
    "allgather_ring": "ring",
    "reducescatter_ring": "ring",
    "broadcast_chain": "ring",
    "reduce_chain": "ring",
}
"""Algorithms that NCCL has too, and how it calls them."""


def simulated(system: System) -> Cost:
    """Time by replay on a system."""
    return lambda plan, num_bytes, tile: (
        simulate(plan, system, num_bytes, tiling=Tiling(tile_bytes=tile)).seconds
    )


def tune(
    workshop: Workshop,
    sizes: Sequence[int],
    cost: Cost | None = None,
    progress: Callable[[int], None] = lambda num_bytes: None,
) -> list[Window]:
    """The windows of a collective from the first to the last of ``sizes``, which ascend; ``cost`` is the simulator's."""
    if workshop.num_ranks < 2:
        raise TopologyError(f"system {workshop.system.name!r} has one device, and nothing to tune")
    search = _Search(workshop, cost or simulated(workshop.system), list(workshop.candidates()))
    rows: list[Row] = []
    for num_bytes in sizes:
        progress(num_bytes)
        rows.append(search.row(num_bytes, rows[-1].chosen if rows else None))
    return [search.window(group, sizes) for group in _same_plan(rows)]


@dataclass(frozen=True)
class _Search:
    workshop: Workshop
    cost: Cost
    candidates: list[Candidate]

    def row(self, num_bytes: int, before: Timed | None) -> Row:
        """The best plan at a size; ``before`` is the choice of the size before."""
        default = self._default(num_bytes)
        timed = self._race([one for one in self.candidates if one.algorithm not in STOCK], num_bytes, default)
        stock = self._race([one for one in self.candidates if one.algorithm in STOCK], num_bytes, None)
        ranked = sorted([*timed, *stock, default], key=lambda one: one.seconds)
        chosen = self._settled(ranked[0], default, before, num_bytes)
        return Row(
            num_bytes,
            chosen,
            default,
            next((one for one in ranked if one.plan.name != chosen.plan.name and one is not default), None),
            min(stock, key=lambda one: one.seconds, default=None),
            lower_bound(self.workshop.collective, num_bytes, self.workshop.system),
        )

    def _settled(self, best: Timed, default: Timed, before: Timed | None, num_bytes: int) -> Timed:
        """The default, or the choice before, where the best is not clearly better."""
        enough = best.seconds / (1 - CLEARLY)
        if default.seconds <= enough:
            return default
        if before is not None and before.candidate is not None and before.candidate != best.candidate:
            again = Timed(before.candidate, before.plan, self.cost(before.plan, num_bytes, 0))
            return again if again.seconds <= enough else best
        return best

    def _default(self, num_bytes: int) -> Timed:
        shop = self.workshop
        request = PlanRequest(
            shop.kind, shop.num_ranks, shop.system.host_of_rank, num_bytes, False, shop.root, shop.peer
        )
        plan = LIBRARY.choose(request).plan
        return Timed(None, plan, self.cost(plan, num_bytes, 0))

    def _race(self, candidates: Sequence[Candidate], num_bytes: int, known: Timed | None) -> list[Timed]:
        """Those who might win, timed, the most promising first; who cannot beat the best so far is not timed."""
        found: list[Timed] = []
        best = known.seconds if known is not None else float("inf")
        floors = sorted((self._floor(one, num_bytes), number) for number, one in enumerate(candidates))
        for floor, number in floors:
            if floor >= best:
                break
            timed = self._timed(candidates[number], num_bytes)
            found.append(timed)
            best = min(best, timed.seconds)
        for leader in _leaders(found):
            found += self._climb(leader, num_bytes)
        return found

    def _climb(self, leader: Timed, num_bytes: int) -> Iterator[Timed]:
        """The same with more and more instances, as long as each is faster than the one before."""
        while leader.candidate is not None and (more := self.workshop.doubled(leader.candidate)) is not None:
            timed = self._timed(more, num_bytes)
            if timed.seconds >= leader.seconds:
                return
            yield timed
            leader = timed

    def _timed(self, candidate: Candidate, num_bytes: int) -> Timed:
        plan = self.workshop.plan(candidate)
        try:
            return Timed(candidate, plan, self.cost(plan, num_bytes, 0))
        except LimitError:  # a message of so many chunks fits in no slot
            return Timed(candidate, plan, float("inf"))

    def _floor(self, candidate: Candidate, num_bytes: int) -> float:
        """What no run of this algorithm can beat: the bytes of its busiest rank, and its steps."""
        card, devices = self.workshop.card(candidate), self._devices
        numbers = self.workshop.system.protocols.get(candidate.protocol.value)
        efficiency, step = (numbers.efficiency, numbers.message_seconds) if numbers else (1.0, 0.0)
        out, into = float(devices.capacity_out.max()), float(devices.capacity_in.max())
        flowing = max(float(card.sent) / out, float(card.received) / into) * num_bytes / efficiency
        return max(flowing, card.steps * (float(devices.crossing_latency.min()) + step))

    @cached_property
    def _devices(self) -> UnitsOfRanks:
        return levels_of_units(self.workshop.system, self.workshop.num_ranks)[-1]

    def window(self, rows: Sequence[Row], sizes: Sequence[int]) -> Window:
        """Neighbouring sizes with one plan, up to where the next begins."""
        last = rows[-1]
        after = next((size for size in sizes if size > last.num_bytes), None)
        tile = self._tile(last)
        return Window(
            rows[0].num_bytes,
            last.num_bytes if after is None else after - 1,
            tuple(rows),
            tile,
            _why(rows, tile),
        )

    def _tile(self, row: Row) -> int:
        """The size of messages with which the largest size of a window is clearly faster, or 0."""
        times = {tile: self._tiled(row, tile) for tile in TILES}
        best = min(times, key=lambda tile: times[tile])
        return best if times[best] < row.chosen.seconds * (1 - CLEARLY) else 0

    def _tiled(self, row: Row, tile: int) -> float:
        try:
            return self.cost(row.chosen.plan, row.num_bytes, tile)
        except LimitError:
            return float("inf")


LIBRARY = LibraryPlans()
"""What the runtime takes by itself; compiled plans are kept between calls."""


def _leaders(timed: Sequence[Timed]) -> list[Timed]:
    """The fastest, and of every protocol its own: with more instances the order among protocols changes."""
    ranked = sorted(timed, key=lambda one: one.seconds)
    protocols = dict.fromkeys(one.plan.protocol for one in ranked)
    first = [next(one for one in ranked if one.plan.protocol is protocol) for protocol in protocols]
    return list({id(one): one for one in (*ranked[:MOST_CLIMBERS], *first)}.values())


def _same_plan(rows: Sequence[Row]) -> list[list[Row]]:
    groups: list[list[Row]] = []
    for row in rows:
        if groups and _key(groups[-1][-1].chosen) == _key(row.chosen):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _key(timed: Timed) -> tuple[object, ...]:
    return (timed.candidate,) if timed.candidate is not None else (None, id(timed.plan))


def _why(rows: Sequence[Row], tile: int) -> str:
    """The reason in a sentence, from the largest size of the window."""
    row = rows[-1]
    chosen = row.chosen
    words = []
    if chosen.candidate is None:
        words.append("the runtime's own choice, and nothing is clearly faster")
    else:
        words.append(
            f"{row.default.seconds / chosen.seconds:.2f} times as fast as the runtime's own {row.default.name}"
        )
    if row.second is not None and chosen.candidate is not None:
        words.append(f"{100 * (row.second.seconds / chosen.seconds - 1):.0f} % before {row.second.name}")
    if row.bound.seconds > 0:
        words.append(f"{chosen.seconds / row.bound.seconds:.2f} times the bound")
    if tile:
        words.append(f"faster still with tiles of {format_bytes(tile)}")
    return f"at {format_bytes(row.num_bytes)}: {', '.join(words)}"
