"""PlanSource: chooses the plan for a call of a communicator.

Every rank asks a source of its own, so a source must be deterministic: the same request gives the same plan in every
process. Ranks compare the digests of their choices, and so notice when one of them has another plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from hemiola.collectives import Collective, CollectiveKind, parse_kind
from hemiola.errors import CollectiveError, NoPlanError
from hemiola.ir.plan import Plan
from hemiola.runtime.default_source import provided_default
from hemiola.runtime.plans.judge import SLOTS
from hemiola.units import format_bytes

CACHED_REQUESTS = 4096
"""The number of requests whose choices a source caches; the least recently used one is dropped first."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The properties of a call on which the choice of its plan depends; they are the same on every rank."""

    kind: CollectiveKind
    num_ranks: int
    hosts: tuple[int, ...]
    """The host number of every rank."""
    num_bytes: int
    """The bytes of the collective (`collectives.kinds`)."""
    in_place: bool
    root: int = 0
    """The root of a collective that has one; the source of sendrecv."""
    peer: int = 0
    """The destination of sendrecv."""
    same_expression: bool = False
    """Whether all ranks must compute the same expression for a sum, so that results are bit-identical."""
    uneven: bool = False
    """Whether the shares differ in length. Then only plans serve that move each share as a whole and never through
    scratch buffers, and ``num_bytes`` is a number that all ranks agree on, such as 0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", parse_kind(self.kind))

    def collective(self) -> Collective:
        """The requested collective with one chunk per share; raises CollectiveError where the request contradicts itself."""
        if self.kind is CollectiveKind.CUSTOM:
            raise CollectiveError(
                "a custom collective cannot be asked for by its kind; run its plan with Communicator.run"
            )
        if len(self.hosts) != self.num_ranks:
            raise CollectiveError(
                f"hosts has the host of every rank: {self.num_ranks} were expected, {len(self.hosts)} found"
            )
        if self.num_bytes < 0:
            raise CollectiveError(
                f"{self.kind} was asked for {self.num_bytes} bytes; a size is 0 bytes or more"
            )
        return Collective(self.kind, self.num_ranks, 1, self.in_place, self.root, self.peer)

    def __str__(self) -> str:
        num_hosts = len(set(self.hosts))
        ends = {CollectiveKind.SENDRECV: f"from rank {self.root} to rank {self.peer}"}.get(
            self.kind, f"root {self.root}"
        )
        words = [
            f"{self.kind} of {_counted(self.num_ranks, 'rank')} on {_counted(num_hosts, 'host')}",
            "uneven shares" if self.uneven else format_bytes(self.num_bytes),
            "in place" if self.in_place else "out of place",
            *([ends] if self.kind.facts.rooted else []),
            *(["the same bits on all ranks"] if self.same_expression else []),
        ]
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan that was chosen, and why."""

    plan: Plan
    """A plan for exactly the request's collective and root, in place or not as the request says."""
    digest: bytes
    """``plan_digest(plan)``: ranks that have the same digest run the same plan."""
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A candidate that was not chosen."""

    name: str
    """The name of the algorithm or of the file."""
    reason: str
    """Why it was not chosen, in one sentence."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The choice for one request and the reason against every other candidate; prints as a table."""

    request: PlanRequest
    chosen: Choice | None
    """None where no candidate fits."""
    others: tuple[Refusal, ...]

    def __str__(self) -> str:
        rows = [("no", other.name, other.reason) for other in self.others]
        if self.chosen is not None:
            rows.insert(0, ("yes", self.chosen.plan.name, self.chosen.reason))
        width = max((len(name) for _, name, _ in rows), default=0)
        lines = [f"  {runs:<3}  {name:<{width}}  {reason}" for runs, name, reason in rows]
        return "\n".join([f"{self.request}{'' if self.chosen else ': no plan'}", *lines])


class PlanSource(Protocol):
    """Chooses plans. Several threads may call its methods at once."""

    def choose(self, request: PlanRequest) -> Choice:
        """The plan for a request; raises NoPlanError where the source has none."""
        ...

    def explain(self, request: PlanRequest) -> Explanation:
        """The same choice, with the reason against every other candidate."""
        ...


class ChainedPlans:
    """Several sources in order; the first one that has a plan for the request is used."""

    def __init__(self, sources: Sequence[PlanSource]) -> None:
        self._sources = tuple(sources)
        self._choose = lru_cache(maxsize=CACHED_REQUESTS)(self._first_choice)

    def choose(self, request: PlanRequest) -> Choice:
        """The plan of the first source that has one; raises NoPlanError where none has."""
        return self._choose(request)

    def _first_choice(self, request: PlanRequest) -> Choice:
        for source in self._sources:
            try:
                return source.choose(request)
            except NoPlanError:
                continue
        raise no_plan(self.explain(request))

    def explain(self, request: PlanRequest) -> Explanation:
        """The choice of the first source that has one, and the reasons of all sources in their order."""
        parts = [source.explain(request) for source in self._sources]
        chosen: Choice | None = None
        others: list[Refusal] = []
        for part in parts:
            if part.chosen is not None and chosen is not None:
                others.append(Refusal(part.chosen.plan.name, f"{chosen.plan.name} is of a source before it"))
            chosen = chosen or part.chosen
            others.extend(part.others)
        return Explanation(request, chosen, tuple(others))


def no_plan(explanation: Explanation) -> NoPlanError:
    """The error for a request that no candidate fits."""
    reasons = [f"{other.name}: {other.reason}" for other in explanation.others]
    found = f"the candidates were refused ({' | '.join(reasons)})" if reasons else "there are no candidates"
    return NoPlanError(
        f"no plan for {explanation.request}: {found}; give one with plans= or in the folder that HEMIOLA_PLANS names"
    )


def plan_digest(plan: Plan) -> bytes:
    """SHA-256 over what a plan does: its collective, its protocol and its tables.

    Its name, the lines of the user's program and the sizes for which it is meant do not change what runs and are left
    out.
    """
    steps = plan.steps.copy()
    steps["line"] = 0
    tables = (plan.ranks, plan.threadblocks, steps, plan.dependencies)
    c = plan.collective
    custom = None if c.custom is None else (c.custom.input_chunks, c.custom.output_chunks, c.custom.promises)
    what = (c.kind, c.num_ranks, c.chunks, c.in_place, c.root, c.peer, custom)
    header = (what, plan.protocol.value, [len(rows) for rows in tables])
    digest = hashlib.sha256(json.dumps(header).encode())
    for rows in tables:
        digest.update(np.ascontiguousarray(rows).tobytes())
    return digest.digest()


def default_plans(slots: int = SLOTS) -> PlanSource:
    """The source of all communicators with that many slots that are given none; made when it is first needed."""
    return _made(provided_default(), slots)


@lru_cache(maxsize=8)
def _made(factory: Callable[[int], PlanSource], slots: int) -> PlanSource:
    return factory(slots)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
