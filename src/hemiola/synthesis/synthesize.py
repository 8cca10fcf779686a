"""synthesize: the best programs of a reduction beside what users would have had without them.

Closed forms choose the programs. Where the groups are small enough each is compiled and replayed with all groups running at once, and
so are the algorithms of the library; replayed times decide then. Otherwise estimates decide, on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.cost.bounds.lower_bound import Bound, lower_bound
from hemiola.cost.estimates.grouped_steps import GroupedStep, StepClock
from hemiola.cost.estimates.shared_system import shared_system
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from hemiola.errors import ReductionError
from hemiola.ir.plan import Plan
from hemiola.simulator.runtimes.runtime_model import RuntimeModel
from hemiola.synthesis.costs import levels_above_one
from hemiola.synthesis.estimate import WORK, EstimatedProgram, estimate_programs
from hemiola.synthesis.program import ReductionProgram
from hemiola.synthesis.state import REDUCTIONS
from hemiola.topology.system import System
from hemiola.tuning.candidate import Candidate
from hemiola.tuning.candidate_space import NUM_PROGRAMS, CandidateSpace
from hemiola.tuning.plan_search import PlanSearch, TimedPlan

MOST_REPLAYED = 128
"""Devices of a group whose plans are compiled and replayed; larger ones are judged by estimates."""
NEAR_BOUND = 1.05
"""As close to the bound as this needs no reason."""


@dataclass(frozen=True, slots=True)
class SynthesizedProgram:
    """A program and its time."""

    estimate: EstimatedProgram
    replayed: TimedPlan | None
    """The fastest way to carry it out; None where only the estimate is known."""

    @property
    def program(self) -> ReductionProgram:
        """The steps."""
        return self.estimate.program

    @property
    def seconds(self) -> float:
        """Replayed where it was, otherwise estimated."""
        return self.estimate.seconds if self.replayed is None else self.replayed.seconds

    @property
    def source(self) -> TimeSource:
        """Which of the two."""
        return TimeSource.ESTIMATED if self.replayed is None else TimeSource.REPLAYED


@dataclass(frozen=True, slots=True)
class Baseline:
    """What there is without a program."""

    name: str
    seconds: float
    source: TimeSource


@dataclass(frozen=True)
class SynthesisResult:
    """Programs, best first, and what they are compared with."""

    request: CollectiveRequest
    num_bytes: int
    programs: tuple[SynthesizedProgram, ...]
    baselines: tuple[Baseline, ...]
    """Best first."""
    bound: Bound
    share: System
    """What one group has of the machine while the others run."""

    @property
    def factors(self) -> tuple[int, ...]:
        """Over how many units of each level a group is split, levels of one unit left out."""
        return tuple(self.share.levels[level].count for level in levels_above_one(self.share))

    @property
    def baseline(self) -> Baseline:
        """The best of what there is without a program."""
        return self.baselines[0]

    @property
    def keeps_default(self) -> bool:
        """Whether no program is faster than the best default."""
        return self.programs[0].seconds >= self.baseline.seconds

    @property
    def plan(self) -> Plan:
        """The plan of the first program, for one group; not proven yet."""
        first = self.programs[0].replayed
        if first is None:
            raise ReductionError(
                f"there is no plan: programs are compiled for groups of up to {MOST_REPLAYED} devices, and not where only"
                " estimates were asked for"
            )
        return first.plan

    @property
    def distance(self) -> str:
        """How far the first program is from the bound, and why where that is more than 5 %."""
        first, bound, estimate = self.programs[0], self.bound.seconds, self.programs[0].estimate
        times = first.seconds / bound
        said = f"The first program takes {times:.2f} times the bound"
        if times <= NEAR_BOUND:
            return f"{said}."
        filling = estimate.seconds - estimate.busy_seconds - estimate.latency_seconds
        parts = {
            "latency, since a step passes data on from one device to the next": estimate.latency_seconds,
            estimate.busiest if estimate.busiest in WORK else f"{estimate.busiest}, {self._rule}": max(
                0.0, estimate.busy_seconds - bound
            ),
            "filling the pipeline, since a step begins with a whole piece": max(0.0, filling),
            "pieces that wait for each other, of which the estimate knows nothing": first.seconds
            - estimate.seconds,
        }
        return f"{said}; most of the rest is {max(parts, key=lambda name: parts[name])}."

    @property
    def _rule(self) -> str:
        """What of the language keeps steps above the bound."""
        if any(level.fabric.reduces and level.count > 1 for level in self.share.levels):
            return "whose switches could add up what passes, which no step of the language asks for"
        return "which carries more than the bound counts: a step moves what all its members hold round their group"

    def to_json(self) -> dict[str, Any]:
        """For machines; groups and placement are said by whoever asked."""
        return {
            "system": self.request.system.name,
            "collective": self.request.kind,
            "bytes": self.num_bytes,
            "factors": list(self.factors),
            "num_groups": len(self.request.groups),
            "keeps_default": self.keeps_default,
            "distance": self.distance,
            "baselines": [
                {"name": one.name, "seconds": one.seconds, "source": one.source} for one in self.baselines
            ],
            "programs": [self._program_fields(one) for one in self.programs],
        }

    def _program_fields(self, one: SynthesizedProgram) -> dict[str, Any]:
        return {
            "program": str(one.program),
            "steps": [
                {
                    "collective": step.collective,
                    "slice": step.slice_level,
                    "form": step.form.value,
                    "ancestor": step.ancestor,
                    "estimated_seconds": seconds,
                }
                for step, seconds in zip(one.program, one.estimate.step_seconds, strict=True)
            ],
            "seconds": one.seconds,
            "source": one.source,
            "estimated_seconds": one.estimate.seconds,
            "estimated_blocking_seconds": one.estimate.blocking_seconds,
            "how": None if one.replayed is None else how(one.replayed),
            "baseline_seconds": self.baseline.seconds,
            "bound_seconds": self.bound.seconds,
        }


def synthesize(
    request: CollectiveRequest,
    num_bytes: int,
    *,
    top: int = NUM_PROGRAMS,
    replay: bool = True,
    runtime: RuntimeModel | None = None,
) -> SynthesisResult:
    """The ``top`` best programs of a request of ``num_bytes``; without ``replay`` by estimates alone."""
    _check(request, num_bytes)
    share = shared_system(request.system, request.table)
    if not levels_above_one(share):
        raise ReductionError("the axes to reduce over have one device in all, and nothing to reduce")
    bound = lower_bound(request.collective, num_bytes, request.system, groups=request.table)
    estimates = estimate_programs(request, num_bytes, top)
    programs = [SynthesizedProgram(one, None) for one in estimates]
    if replay and request.num_ranks <= MOST_REPLAYED:
        search = PlanSearch(CandidateSpace(request, max(top, NUM_PROGRAMS)), runtime)
        programs = sorted(
            (_replayed(one, search, num_bytes) for one in estimates), key=lambda one: one.seconds
        )
        baselines = list(_library(search, num_bytes))
    else:
        baselines = list(
            _closed_forms(share, request.kind, request.kind.input_bytes(num_bytes, request.num_ranks))
        )
    ordered = tuple(sorted(baselines, key=lambda one: one.seconds))
    return SynthesisResult(request, num_bytes, tuple(programs), ordered, bound, share)


def how(timed: TimedPlan) -> str:
    """What carries out a program, for people."""
    candidate = timed.candidate
    assert candidate is not None
    options = dict(candidate.parameters)
    words = [str(options["exchange"]), "steps overlap" if options["overlapped"] else "steps in turn"]
    words.append(f"{candidate.instances} instance{'' if candidate.instances == 1 else 's'}")
    if candidate.message_bytes:
        words.append(f"messages of {candidate.message_bytes >> 10} KiB")
    return ", ".join([*words, candidate.protocol.value])


def _check(request: CollectiveRequest, num_bytes: int) -> None:
    if request.kind not in REDUCTIONS:
        raise ReductionError(
            f"programs are found for {', '.join(REDUCTIONS)}, not for {request.kind}; hemiola tune knows the library"
        )
    if num_bytes < 1:
        raise ReductionError(f"a reduction has one byte or more, but {num_bytes} were asked for")
    if request.num_ranks < 2:
        raise ReductionError("the axes to reduce over have one device in all, and nothing to reduce")


def _replayed(one: EstimatedProgram, search: PlanSearch, num_bytes: int) -> SynthesizedProgram:
    return SynthesizedProgram(one, search.best(num_bytes, search.space.ways_of(one.program))[0])


def _library(search: PlanSearch, num_bytes: int) -> Iterator[Baseline]:
    """The best of the whole library, the flat algorithms, and what the runtime takes by itself."""
    library = [one for one in search.space.candidates if one.program is None]
    best = search.best(num_bytes, library)[0]
    yield Baseline(best.name, best.seconds, TimeSource.REPLAYED)
    for name in _flat(search.request.kind):
        flat: list[Candidate] = [one for one in library if one.algorithm == name]
        if flat and best.candidate is not None and best.candidate.algorithm != name:
            found = search.best(num_bytes, flat)[0]
            yield Baseline(found.name, found.seconds, TimeSource.REPLAYED)


def _flat(kind: CollectiveKind) -> list[str]:
    """Algorithms of the library that know no levels, and that other libraries have as well."""
    return [name for name in ALGORITHMS if name in (f"{kind}_ring", f"{kind}_double_binary_tree")]


def _closed_forms(share: System, kind: CollectiveKind, held: float) -> Iterator[Baseline]:
    clock, levels = StepClock(share), levels_above_one(share)
    step = GroupedStep(kind, levels[0], levels[-1] + 1)
    ring = clock.ring(step, held, every_link=True)
    yield Baseline("flat rings, one for each link", ring.seconds, TimeSource.ESTIMATED)
    if kind in (CollectiveKind.ALLREDUCE, CollectiveKind.REDUCE, CollectiveKind.BROADCAST):
        yield Baseline("double tree", clock.trees(step, held).seconds, TimeSource.ESTIMATED)
