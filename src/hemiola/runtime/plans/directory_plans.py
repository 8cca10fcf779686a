"""DirectoryPlans: a plan source of the user's own plan files in a folder.

A file may come from an untrusted source. It is data: it is read and proven before anything of it is used. A file that
is wrong is skipped, and ``explain`` says why; it never stops a job.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hemiola.collectives import CollectiveKind
from hemiola.errors import FormatError, HemiolaError
from hemiola.ir.formats import read_plan
from hemiola.ir.plan import Plan
from hemiola.ir.verdict import Verdict
from hemiola.runtime.plans.demands import unmet_demand
from hemiola.runtime.plans.judge import SLOTS, judge
from hemiola.runtime.plans.plan_source import (
    CACHED_REQUESTS,
    ChainedPlans,
    Choice,
    Explanation,
    PlanRequest,
    PlanSource,
    Refusal,
    no_plan,
    plan_digest,
)
from hemiola.units import format_bytes

VARIABLE = "HEMIOLA_PLANS"
"""The environment variable that names the folder of the user's own plans."""
SUFFIXES = (".plan", ".xml")


@dataclass(frozen=True, slots=True)
class ProvenFile:
    """A plan file whose plan was proven."""

    name: str
    plan: Plan
    verdict: Verdict
    choices: Mapping[bool, Choice]
    """The choices by ``in_place``; a plan that serves both has two."""


class DirectoryPlans:
    """The plans in the files ``*.plan`` and ``*.xml`` of a folder, sorted by name; the first one that fits is used.

    The folder is read once. ``slots`` is the least number of slots that a connection of the runtime has.
    """

    def __init__(self, path: str | os.PathLike[str], *, slots: int = SLOTS) -> None:
        self._path = Path(path)
        files = [_read(file, slots) for file in _plan_files(self._path)]
        self._proven = tuple(file for file in files if isinstance(file, ProvenFile))
        self._wrong = tuple(file for file in files if isinstance(file, Refusal))
        self._choose = lru_cache(maxsize=CACHED_REQUESTS)(self._decide)
        if not self._proven:
            warnings.warn(
                f"no plan of the folder {self._path} can be used: {self._emptiness()}", stacklevel=2
            )

    def choose(self, request: PlanRequest) -> Choice:
        """The plan of the first file that fits; raises RunError where none does."""
        return self._choose(request)

    def explain(self, request: PlanRequest) -> Explanation:
        """The first file that fits, and why every other file is not used."""
        request.collective()
        chosen: Choice | None = None
        others = []
        for file in self._proven:
            obstacle = _obstacle(file, request)
            if obstacle is None and chosen is None:
                chosen = file.choices[request.in_place]
            else:
                others.append(Refusal(file.name, obstacle or "it fits too, but another comes first by name"))
        return Explanation(request, chosen, (*others, *self._wrong))

    def _decide(self, request: PlanRequest) -> Choice:
        explanation = self.explain(request)
        if explanation.chosen is None:
            raise no_plan(explanation)
        return explanation.chosen

    def _emptiness(self) -> str:
        if not self._wrong:
            return f"it has no file *{' or *'.join(SUFFIXES)}"
        first = self._wrong[0]
        return f"all {len(self._wrong)} of its files are wrong, first of all {first.name}: {first.reason}"


def with_own_plans(
    plans: PlanSource, environment: Mapping[str, str] = os.environ, *, slots: int = SLOTS
) -> PlanSource:
    """A source of the plans in the folder that HEMIOLA_PLANS names; where none of them fits, ``plans`` is asked."""
    folder = environment.get(VARIABLE)
    return ChainedPlans([DirectoryPlans(folder, slots=slots), plans]) if folder else plans


def _plan_files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)
    except OSError as error:
        raise FormatError(
            f"{folder}: a folder of plan files was expected, but it cannot be listed: {error.strerror}; "
            f"set {VARIABLE} to a folder, or unset it"
        ) from None


def _read(file: Path, slots: int) -> ProvenFile | Refusal:
    try:
        plan = read_plan(file)
        verdict = judge(plan, slots=slots)
    except HemiolaError as error:
        return Refusal(file.name, _without_path(str(error), file))
    if not verdict.ok:
        first = verdict.failures[0]
        sentence = first.message.partition("\n")[0].rstrip(":")
        more = f"hemiola verify --slots {slots} {file} says more"
        return Refusal(file.name, f"it is not correct ({first.kind.value}): {sentence}; {more}")
    if not verdict.postcondition_known:
        return Refusal(file.name, "what it computes is not known; run it with Communicator.run")
    places = (True, False) if plan.both_places else (plan.collective.in_place,)
    return ProvenFile(file.name, plan, verdict, {place: _choice(file, plan, place) for place in places})


def _without_path(message: str, file: Path) -> str:
    """An error message without the path of the file with which it begins, for texts that name the file already."""
    sentence = message.removeprefix(f"{file}:").lstrip()
    number, _, message = sentence.partition(": ")
    return f"line {number}: {message}" if number.isdigit() else sentence


def _choice(file: Path, plan: Plan, in_place: bool) -> Choice:
    plan = plan.for_place(in_place=in_place)
    return Choice(plan, plan_digest(plan), f"{file.name} is the first file of {file.parent} that fits")


def _obstacle(file: ProvenFile, request: PlanRequest) -> str | None:
    """Why a proven plan does not serve a request; None if it does."""
    has, plan = file.plan.collective, file.plan
    if has.kind != request.kind:
        return f"it is a plan for {has.kind}"
    if has.num_ranks != request.num_ranks:
        return f"it is for {has.num_ranks} ranks, and there are {request.num_ranks}"
    if has.kind.facts.rooted and has.root != request.root:
        return f"it is for root {has.root}, and the root is {request.root}"
    if has.kind is CollectiveKind.SENDRECV and has.peer != request.peer:
        return f"it is for destination {has.peer}, and the destination is {request.peer}"
    if request.in_place not in file.choices:
        return f"it is for calls {'in place' if has.in_place else 'out of place'}"
    return _size_obstacle(plan, request) or unmet_demand(plan, file.verdict, request)


def _size_obstacle(plan: Plan, request: PlanRequest) -> str | None:
    num_bytes = request.num_bytes
    if num_bytes < plan.min_bytes:
        return f"it is for {format_bytes(plan.min_bytes)} and more, and there are {format_bytes(num_bytes)}"
    if plan.max_bytes and num_bytes > plan.max_bytes:
        return f"it is for up to {format_bytes(plan.max_bytes)}, and there are {format_bytes(num_bytes)}"
    return None
