"""Candidates: what can be tried for a collective on a system, each an algorithm of the library with all its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import log2

from hemiola.algorithms.algorithm import Algorithm
from hemiola.algorithms.cost import CostCard
from hemiola.algorithms.exchanges import EXCHANGES
from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import KINDS, Collective
from hemiola.compiler.compile import compile_program
from hemiola.ir.plan import Plan, Protocol
from hemiola.topology.system import System
from hemiola.tuning.layout import layout_of

Parameter = int | str | tuple[int, ...]

MOST_INSTANCES = 16
"""How many times an algorithm may run side by side, each on its part of the data and on channels of its own."""
MOST_MESSAGES = 1 << 18
"""A plan with more is left out: to compile it takes longer than to try all others."""
EVERY_PAIR = ("ring", "chain", "allpairs", "one_step", "direct", "two_step", "three_step")
"""Shapes in which messages grow with the square of the ranks."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An algorithm, its parameters beside ranks, place and ends, and a protocol."""

    algorithm: str
    parameters: tuple[tuple[str, Parameter], ...]
    protocol: Protocol

    @property
    def instances(self) -> int:
        """How many times the algorithm runs side by side."""
        found = dict(self.parameters).get("instances", 1)
        assert isinstance(found, int)
        return found

    def __str__(self) -> str:
        words = [self.algorithm]
        for name, value in self.parameters:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            words.append(f"{name}={text}")
        return " ".join(words)


@dataclass(frozen=True)
class Workshop:
    """What is asked for, and the plans for it, each compiled once."""

    kind: str
    system: System
    root: int = 0
    peer: int = 0

    @property
    def num_ranks(self) -> int:
        """A rank on every device."""
        return self.system.num_ranks

    @property
    def collective(self) -> Collective:
        """Out of place, a chunk a share."""
        return Collective(self.kind, self.num_ranks, 1, root=self.root, peer=self.peer)

    @cached_property
    def _plans(self) -> dict[tuple[object, ...], Plan]:
        return {}

    @cached_property
    def protocols(self) -> list[Protocol]:
        """Those that the system has numbers for; otherwise only the plainest."""
        known = [protocol for protocol in Protocol if protocol.value in self.system.protocols]
        return known or [Protocol.SIMPLE]

    def candidates(self) -> Iterator[Candidate]:
        """All that can be built and are not too large, of one instance each, in the order of the library."""
        for algorithm in ALGORITHMS.values():
            if algorithm.kind != self.kind:
                continue
            for parameters in self._choices(algorithm):
                if algorithm.refusal(**self._known(algorithm), **parameters) is None and self._is_small(
                    algorithm, parameters
                ):
                    for protocol in self.protocols:
                        yield Candidate(algorithm.name, tuple(parameters.items()), protocol)

    def doubled(self, candidate: Candidate) -> Candidate | None:
        """The same with twice as many instances; None where that would be too many."""
        algorithm, parameters = ALGORITHMS[candidate.algorithm], dict(candidate.parameters)
        instances = 2 * candidate.instances
        parameters["instances"] = instances
        if instances > MOST_INSTANCES or "instances" not in algorithm.parameters:
            return None
        return (
            replace(candidate, parameters=tuple(parameters.items()))
            if self._is_small(algorithm, parameters)
            else None
        )

    def plan(self, candidate: Candidate, *, in_place: bool = False) -> Plan:
        """The proven plan of a candidate."""
        algorithm = ALGORITHMS[candidate.algorithm]
        key = (candidate.algorithm, candidate.parameters, in_place)
        if key not in self._plans:
            known = {**self._known(algorithm), **dict(candidate.parameters)}
            if in_place:
                known["in_place"] = True
            self._plans[key] = compile_program(algorithm.build(**known)).plan
        return replace(self._plans[key], protocol=candidate.protocol)

    def card(self, candidate: Candidate) -> CostCard:
        """What it costs in steps and bytes."""
        algorithm = ALGORITHMS[candidate.algorithm]
        return algorithm.card(**self._known(algorithm), **dict(candidate.parameters))

    @property
    def places(self) -> tuple[bool, ...]:
        """The forms that calls may have: out of place, and in place where there is such a form."""
        return (False, True) if KINDS[self.kind].can_be_in_place else (False,)

    def _known(self, algorithm: Algorithm) -> dict[str, Parameter]:
        ends = {"root": self.root, "source": self.root, "destination": self.peer}
        return {
            "ranks": self.num_ranks,
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
        """Hosts and ranks of a host, and all levels of a system whose units are alike."""
        layout = layout_of(self.system.host_of_rank)
        found = [] if layout.obstacle is not None else [tuple(layout.levels)]
        if self.system.is_uniform:
            counts = tuple(level.count for level in self.system.levels if level.count > 1)
            found += [counts] if len(counts) > 1 else []
        return tuple(dict.fromkeys(found))

    def _is_small(self, algorithm: Algorithm, parameters: Mapping[str, Parameter]) -> bool:
        n, levels, instances = self.num_ranks, parameters.get("levels"), parameters.get("instances", 1)
        assert isinstance(instances, int)
        if isinstance(levels, tuple):
            per_rank = float(sum(levels))
        else:
            per_rank = n if algorithm.name.partition("_")[2] in EVERY_PAIR else 2 * log2(n) + 1
        return n * per_rank * instances <= MOST_MESSAGES
