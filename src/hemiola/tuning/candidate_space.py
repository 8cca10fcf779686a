"""CandidateSpace: what can be tried for a request: the algorithms of the library that fit it, and synthesized programs.

Levels come from how the groups of the request lie on the system. Plans are compiled when they are first asked for, and proven
only when they leave: a search looks at hundreds and keeps one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import log2, prod

from hemiola.algorithms.algorithm import Algorithm
from hemiola.algorithms.exchanges import EXCHANGES
from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program, compile_unproven
from hemiola.cost.group_shape import regular_factors
from hemiola.cost.request import CollectiveRequest
from hemiola.ir.plan import Plan, Protocol
from hemiola.language.program import Program
from hemiola.synthesis.estimate import EstimatedProgram, estimate_programs
from hemiola.synthesis.lower import TWO_TREES, lower
from hemiola.synthesis.program import ReductionProgram
from hemiola.synthesis.state import REDUCTIONS
from hemiola.synthesis.table import DEEPEST
from hemiola.tuning.candidate import SYNTHESIZED, Candidate, Parameter
from hemiola.tuning.layout import layout_of

MOST_INSTANCES = 16
MOST_MESSAGES = 1 << 18
"""A plan with more is left out: to compile it takes longer than to try all others."""
EVERY_PAIR = ("ring", "chain", "allpairs", "one_step", "direct", "two_step", "three_step")
"""Shapes in which messages grow with the square of the ranks."""
NUM_PROGRAMS = 5
"""Synthesized programs that are tried, the best by their estimate."""
EXCHANGES_OF_STEPS = ("ring", "allpairs", TWO_TREES)
"""What carries out the steps of a program."""


@dataclass(frozen=True)
class CandidateSpace:
    """The candidates of a request, and their plans."""

    request: CollectiveRequest
    num_programs: int = NUM_PROGRAMS

    @cached_property
    def protocols(self) -> list[Protocol]:
        """Those that the system has numbers for; otherwise only the plainest."""
        known = [protocol for protocol in Protocol if protocol.value in self.request.system.protocols]
        return known or [Protocol.SIMPLE]

    @cached_property
    def candidates(self) -> list[Candidate]:
        """All of one instance, with the first protocol and messages as the runtime chooses."""
        return [*self._of_library(), *self._synthesized()]

    @cached_property
    def factors(self) -> tuple[int, ...] | None:
        """Over how many units of each level the groups are split, levels of one unit left out; None where they differ."""
        if self.request.kind is CollectiveKind.ALLTONEXT and not self._is_ordered:
            return None
        found = regular_factors(self.request.system, self.request.table)
        return None if found is None else tuple(factor for factor in found if factor > 1)

    @cached_property
    def programs(self) -> list[EstimatedProgram]:
        """The best programs by their estimate, at no particular size: those of any size in ``SIZES``."""
        if self.request.kind not in REDUCTIONS or self.request.root != 0:
            return []
        if not self.factors or len(self.factors) > DEEPEST or not self.request.system.is_uniform:
            return []
        found: dict[str, EstimatedProgram] = {}
        for num_bytes in SIZES:
            for one in estimate_programs(self.request, num_bytes, self.num_programs):
                found.setdefault(str(one.program), one)
        return list(found.values())

    def plan(self, candidate: Candidate, *, in_place: bool | None = None) -> Plan:
        """The plan of a candidate, not proven yet; in place as the request is priced, or as said."""
        place = self.request.in_place if in_place is None else in_place
        key = (*candidate.compiled_as, place)
        if key not in self._plans:
            self._plans[key] = compile_unproven(self._build(candidate, place))
        return _finished(self._plans[key], candidate)

    def proven_plan(self, candidate: Candidate, *, in_place: bool | None = None) -> Plan:
        """The same, proven."""
        place = self.request.in_place if in_place is None else in_place
        return _finished(compile_program(self._build(candidate, place)).plan, candidate)

    def is_small(self, candidate: Candidate) -> bool:
        """Whether its plan is worth compiling."""
        n, levels = self.request.num_ranks, dict(candidate.parameters).get("levels")
        if candidate.program is not None:
            per_rank = 2.0 * sum(self.factors or ()) * len(candidate.program)
        elif isinstance(levels, tuple):
            per_rank = float(sum(levels))
        else:
            shape = candidate.algorithm.partition("_")[2]
            per_rank = n if shape in EVERY_PAIR else 2 * log2(n) + 1
        return n * per_rank * candidate.instances <= MOST_MESSAGES

    def can_have_instances(self, candidate: Candidate) -> bool:
        """Whether it can run several times side by side."""
        return candidate.program is not None or "instances" in ALGORITHMS[candidate.algorithm].parameters

    @cached_property
    def _plans(self) -> dict[tuple[object, ...], Plan]:
        return {}

    @property
    def _is_ordered(self) -> bool:
        return all(list(group) == sorted(group) for group in self.request.groups)

    def _build(self, candidate: Candidate, in_place: bool) -> Program:
        if candidate.program is not None:
            assert self.factors is not None
            options = dict(candidate.parameters)
            return lower(
                candidate.program,
                self.factors,
                request=self.request.kind,
                exchange=str(options["exchange"]),
                instances=candidate.instances,
                staged=bool(options["overlapped"]),
                in_place=in_place,
            )
        algorithm = ALGORITHMS[candidate.algorithm]
        known: dict[str, Parameter] = {**self._known(algorithm), **dict(candidate.parameters)}
        if "instances" in algorithm.parameters:
            known["instances"] = candidate.instances
        if "in_place" in algorithm.parameters:
            known["in_place"] = in_place
        return algorithm.build(**known)

    def _of_library(self) -> Iterator[Candidate]:
        for algorithm in ALGORITHMS.values():
            if algorithm.kind is not self.request.kind:
                continue
            for parameters in self._choices(algorithm):
                found = Candidate(algorithm.name, tuple(parameters.items()), self.protocols[0])
                if algorithm.refusal(**self._known(algorithm), **parameters) is None and self.is_small(found):
                    yield found

    def _synthesized(self) -> Iterator[Candidate]:
        for one in self.programs:
            yield from self.ways_of(one.program)

    def ways_of(self, program: ReductionProgram) -> Iterator[Candidate]:
        """The ways to carry out a program: what exchanges the data of a step, and whether steps overlap."""
        kinds = [step.collective for step in program]
        overlaps = (False, True) if len(kinds) > 1 or CollectiveKind.ALLREDUCE in kinds else (False,)
        exchanges = [
            one for one in EXCHANGES_OF_STEPS if one != TWO_TREES or CollectiveKind.ALLREDUCE in kinds
        ]
        for exchange, overlapped in product(exchanges, overlaps):
            parameters: tuple[tuple[str, Parameter], ...] = (
                ("exchange", exchange),
                ("overlapped", overlapped),
            )
            found = Candidate(SYNTHESIZED, parameters, self.protocols[0], program=program)
            if self.is_small(found):
                yield found

    def _known(self, algorithm: Algorithm) -> dict[str, Parameter]:
        ends = {"root": self.request.root, "source": self.request.root, "destination": self.request.peer}
        return {
            "ranks": self.request.num_ranks,
            **{name: rank for name, rank in ends.items() if name in algorithm.parameters},
        }

    def _choices(self, algorithm: Algorithm) -> Iterator[dict[str, Parameter]]:
        """Values of every parameter that changes how fast an algorithm is, in all combinations."""
        values: Mapping[str, tuple[Parameter, ...]] = {
            "levels": self._levels,
            "inside": tuple(EXCHANGES),
            "across": tuple(EXCHANGES),
            "chunks": (1, 4, 16),
        }
        names = [name for name in values if name in algorithm.parameters]
        for chosen in product(*(values[name] for name in names)):
            yield dict(zip(names, chosen, strict=True))

    @cached_property
    def _levels(self) -> tuple[tuple[int, ...], ...]:
        """Hosts and ranks of a host; all levels that the groups are split over; and the outermost against all others."""
        layout = layout_of(self.request.hosts)
        found: list[tuple[int, ...]] = [] if layout.obstacle is not None else [tuple(layout.levels)]
        if self.factors is not None and len(self.factors) > 1:
            found += [self.factors, (self.factors[0], prod(self.factors[1:]))]
        return tuple(dict.fromkeys(found))


SIZES = (64 << 10, 64 << 20)
"""A size at which latencies count and one at which bandwidths do."""


def _finished(plan: Plan, candidate: Candidate) -> Plan:
    return replace(plan, protocol=candidate.protocol, message_bytes=candidate.message_bytes)
