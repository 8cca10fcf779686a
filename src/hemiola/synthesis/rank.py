"""rank: the best programs of a reduction beside what users would have had without them.

Closed forms choose the candidates: the cheapest where steps wait for each other, and the cheapest for each resource alone,
because a pipeline is as slow as its busiest resource. They are ordered by their pipelined time. On groups that are
small enough the first few are then compiled, proven and replayed, and so are the baselines, with all protocols, some
numbers of instances and sizes of messages each, and replayed times decide. Otherwise closed forms decide, on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import Collective
from hemiola.compiler.compile import compile_program
from hemiola.errors import LimitError, ReductionError
from hemiola.ir.plan import Plan, Protocol
from hemiola.language.program import Program
from hemiola.simulator.bounds import Bound, lower_bound
from hemiola.simulator.grouped_steps import GroupedStep, StepClock
from hemiola.simulator.replay import simulate
from hemiola.simulator.tiling import Tiling
from hemiola.synthesis.costs import EdgeCosts, edge_costs, levels_above_one
from hemiola.synthesis.lower import TWO_TREES, lower
from hemiola.synthesis.program import ReductionProgram
from hemiola.synthesis.search import Path, cheapest
from hemiola.synthesis.state import Request
from hemiola.synthesis.table import table_of
from hemiola.topology.system import System
from hemiola.tuning.candidates import Workshop
from hemiola.tuning.tune import tune

MOST_REPLAYED = 32
"""Devices of a group whose plans are compiled and replayed; larger ones are judged by closed forms."""
INSTANCES = (1, 4)
TILES = (1, 8, 32)
"""Whole chunks, or so many pieces that follow each other: messages as large as a runtime on GPUs would make them."""
WAYS = (
    ("ring", False),
    ("ring", True),
    ("allpairs", False),
    ("allpairs", True),
    (TWO_TREES, False),
    (TWO_TREES, True),
)
"""What carries out the steps of a program, and whether these have channels of their own, so that they overlap."""
NEAR = 1.05
"""As close to the bound as this needs no reason."""
WORK = ["adding", "copying", "cores that add and copy in turn"]
"""What a step needs beside the links of levels."""
POOL = 4
"""Candidates for each program that is asked for, under each way to count."""
FLAT = {"allreduce": ("allreduce_ring", "allreduce_double_binary_tree")}
"""Algorithms of the library that know no levels."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A program, or an algorithm of the library, and its time."""

    name: str
    seconds: float
    plan: Plan | None = None
    """What was replayed; None where a closed form said the time."""
    num_tiles: int = 1
    """The number of pieces of every chunk that was best."""
    how: str = ""
    """What carries out the steps, for people."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A program and its times."""

    program: ReductionProgram
    seconds: float
    """Replayed, or pipelined by the closed form."""
    step_seconds: tuple[float, ...]
    """Of each step alone, by the closed form."""
    pipelined_seconds: float
    busiest: str
    """The resource that the pipeline waits for: a level of the machine, or one of ``WORK``."""
    busy_seconds: float
    latency_seconds: float
    replayed: Timed | None = None

    @property
    def blocking_seconds(self) -> float:
        """Where every step waits for the one before."""
        return sum(self.step_seconds)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Programs, best first, and what they are compared with."""

    share: System
    """What one group has of the machine."""
    factors: tuple[int, ...]
    programs: tuple[Ranked, ...]
    baselines: tuple[Timed, ...]
    """Best first."""
    bound: Bound

    @property
    def baseline(self) -> Timed:
        """The best of what there is without a program."""
        return self.baselines[0]

    @property
    def distance(self) -> str:
        """How far the first program is from the bound, and why where that is more than 5 %."""
        first, bound = self.programs[0], self.bound.seconds
        times = first.seconds / bound
        said = f"The first program takes {times:.2f} times the bound"
        if times <= NEAR:
            return f"{said}."
        filling = first.pipelined_seconds - first.busy_seconds - first.latency_seconds
        parts = {
            "latency, since a step passes data on from one device to the next": first.latency_seconds,
            first.busiest if first.busiest in WORK else f"{first.busiest}, {self._rule}": max(
                0.0, first.busy_seconds - bound
            ),
            "filling the pipeline, since a step begins with a whole piece": max(0.0, filling),
            "waiting of pieces for each other, of which the closed form of a pipeline knows nothing": first.seconds
            - first.pipelined_seconds,
        }
        why = max(parts, key=lambda name: parts[name])
        return f"{said}; most of the rest is {why}."

    @property
    def _rule(self) -> str:
        """What of the language keeps steps above the bound."""
        if any(level.fabric.reduces and level.count > 1 for level in self.share.levels):
            return "whose switches could add up what passes, which no step of the language asks for"
        return "which carries more than the bound counts: a step moves what all its members hold round their group"

    @property
    def keeps_default(self) -> bool:
        """Whether no program is faster than the best default."""
        return self.programs[0].seconds >= self.baseline.seconds


@dataclass(frozen=True)
class Question:
    """A request of ``num_bytes``: a device's input, or its output where that is gathered, on what one group has."""

    share: System
    num_bytes: int
    request: Request = Request.ALLREDUCE

    def __post_init__(self) -> None:
        if self.num_devices < 2:
            raise ReductionError("the axes to reduce over have one device in all, and nothing to reduce")

    @property
    def num_devices(self) -> int:
        """Of a group."""
        return prod(level.count for level in self.share.levels)

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """The levels that the reduction axes are split over."""
        return tuple(self.share.levels[level].count for level in levels_above_one(self.share))

    @property
    def input_bytes(self) -> int:
        """As plans and bounds count."""
        gathers = self.request is Request.ALLGATHER
        return max(1, self.num_bytes // self.num_devices) if gathers else self.num_bytes

    def rank(self, top: int = 5, *, replay: bool = True) -> Ranking:
        """The ``top`` best programs; ``replay`` compiles and replays them where the group is small enough."""
        chosen = self.candidates(top)[:top]
        if replay and self.num_devices <= MOST_REPLAYED:
            chosen = sorted((self._replayed(one) for one in chosen), key=lambda one: one.seconds)
            baselines = self._library()
        else:
            baselines = list(self._closed_forms())
        collective = Collective(self.request.value, self.num_devices)
        return Ranking(
            self.share,
            self.factors,
            tuple(chosen),
            tuple(sorted(baselines, key=lambda one: one.seconds)),
            lower_bound(collective, self.input_bytes, self.share),
        )

    def candidates(self, top: int) -> list[Ranked]:
        """Programs by their pipelined time, more than ``top``, by closed forms alone."""
        table = table_of(len(self.factors), self.request)
        costs = edge_costs(table, self.share, self.num_bytes)
        seconds = costs.seconds
        # A little of the whole keeps paths apart that load a resource equally.
        counted = [seconds, *(load + 1e-3 * seconds for load in costs.loads.T if load.any())]
        paths = {found.path for each in counted for found in cheapest(table, np.asarray(each), POOL * top)}
        ranked = [self._ranked(table.program(path), path, costs) for path in sorted(paths)]
        return sorted(ranked, key=lambda one: (one.seconds, one.blocking_seconds, len(one.program)))

    def _ranked(self, program: ReductionProgram, path: Path, costs: EdgeCosts) -> Ranked:
        pipelined, busy = costs.pipelined(path), costs.loads[list(path)].sum(axis=0)
        names = [f"the level of {level.name}s" for level in self.share.levels]
        names += WORK
        return Ranked(
            program,
            pipelined,
            tuple(costs.seconds[list(path)].tolist()),
            pipelined,
            names[int(busy.argmax())],
            float(busy.max()),
            float(costs.latencies[list(path)].sum()),
        )

    def _replayed(self, one: Ranked) -> Ranked:
        program, factors = one.program, self.factors
        timed = [
            self._timed(
                str(program),
                lower(
                    program,
                    factors,
                    request=self.request,
                    exchange=exchange,
                    instances=instances,
                    protocol=protocol.value,
                    staged=staged,
                ),
                f"{exchange}, {'steps overlap' if staged else 'steps in turn'}, {_times(instances, 'instance')}",
            )
            for protocol in self._protocols
            for instances in INSTANCES
            for exchange, staged in WAYS
        ]
        best = min(timed, key=lambda each: each.seconds)
        return replace(one, seconds=best.seconds, replayed=best)

    @cached_property
    def _protocols(self) -> list[Protocol]:
        return Workshop(self.request.value, self.share).protocols

    def _timed(self, name: str, program: Program, how: str) -> Timed:
        plan = compile_program(program).plan
        seconds, num_tiles = min((self._tiled(plan, tiles), tiles) for tiles in TILES)
        return Timed(
            name, seconds, plan, num_tiles, f"{how}, {_times(num_tiles, 'tile')}, {plan.protocol.value}"
        )

    def _tiled(self, plan: Plan, num_tiles: int) -> float:
        try:
            return simulate(plan, self.share, self.input_bytes, tiling=Tiling(num_tiles=num_tiles)).seconds
        except LimitError:  # a message of so many chunks fits in no slot
            return float("inf")

    def _library(self) -> list[Timed]:
        """Flat algorithms, and what tuning finds best in the whole library, replayed."""
        found = [self._flat(name) for name in FLAT.get(self.request.value, ())]
        (window,) = tune(
            Workshop(self.request.value, self.share),
            [self.input_bytes],
            cost=lambda plan, _, __: min(self._tiled(plan, tiles) for tiles in TILES),
        )
        tuned = window.rows[0].chosen
        return [*found, Timed(tuned.name, tuned.seconds, tuned.plan, how=tuned.plan.protocol.value)]

    def _flat(self, name: str) -> Timed:
        algorithm = ALGORITHMS[name]
        timed = [
            self._timed(
                name,
                algorithm.build(ranks=self.num_devices, instances=instances, protocol=protocol.value),
                _times(instances, "instance"),
            )
            for protocol in self._protocols
            for instances in INSTANCES
        ]
        return min(timed, key=lambda one: one.seconds)

    def _closed_forms(self) -> Iterator[Timed]:
        clock, levels = StepClock(self.share), levels_above_one(self.share)
        step = GroupedStep(self.request.value, levels[0], levels[-1] + 1)
        held = self.input_bytes
        yield Timed("flat rings, one for each link", clock.ring(step, held, every_link=True).seconds)
        if self.request in (Request.ALLREDUCE, Request.REDUCE, Request.BROADCAST):
            yield Timed("double tree", clock.trees(step, held).seconds)


def _times(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
