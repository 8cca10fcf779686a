"""LibraryPlans: plans of the library's algorithms, chosen by the table of windows and compiled when first used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.ir.plan import Plan
from hemiola.ir.verdict import Verdict
from hemiola.runtime.plans.demands import unmet_demand
from hemiola.runtime.plans.directory_plans import with_own_plans
from hemiola.runtime.plans.plan_source import (
    CACHED_REQUESTS,
    Choice,
    Explanation,
    PlanRequest,
    PlanSource,
    Refusal,
    no_plan,
    plan_digest,
)
from hemiola.tuning.layout import layout_of
from hemiola.tuning.windows import WINDOWS, WITHOUT_WINDOW, AlgorithmWindow
from hemiola.units import format_bytes

LIBRARY_SLOTS = 2
"""Plans are proven for so few slots, where there are no fewer, and serve all communicators with more."""
Parameter = int | str | tuple[int, ...]
Key = tuple[str, int, tuple[tuple[str, Parameter], ...]]
"""An algorithm, the size of its messages and all its parameters, place and root among them."""


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled and proven plan."""

    plan: Plan
    verdict: Verdict
    digest: bytes


class LibraryPlans:
    """Plans of the library's algorithms: for every collective, any number of ranks, root and place.

    Nothing is locked. Two threads that ask for the same new plan at once may both compile it; the plans are
    equal, and all get the one that was stored first.
    """

    def __init__(self, slots: int = LIBRARY_SLOTS) -> None:
        self._options = CompileOptions(slots=slots)
        self._built: dict[Key, Built] = {}
        self._choose = lru_cache(maxsize=CACHED_REQUESTS)(self._decide)

    def choose(self, request: PlanRequest) -> Choice:
        """The plan of the first window that the request falls into; raises RunError where there is none."""
        return self._choose(request)

    def explain(self, request: PlanRequest) -> Explanation:
        """The same choice, and of every other algorithm for the collective why not."""
        request.collective()
        chosen = self._window(request)
        names = [name for name, algorithm in ALGORITHMS.items() if algorithm.kind == request.kind]
        return Explanation(
            request,
            None if chosen is None else self._choice(chosen, request),
            tuple(
                Refusal(name, self._why_not(name, chosen, request))
                for name in names
                if chosen is None or name != chosen.algorithm
            ),
        )

    def _decide(self, request: PlanRequest) -> Choice:
        request.collective()
        window = self._window(request)
        if window is None:
            raise no_plan(self.explain(request))
        return self._choice(window, request)

    def _window(self, request: PlanRequest) -> AlgorithmWindow | None:
        return next((window for window in WINDOWS[request.kind] if self._takes(window, request)), None)

    def _choice(self, window: AlgorithmWindow, request: PlanRequest) -> Choice:
        built = self._build(window, request)
        return Choice(built.plan, built.digest, window.why)

    def _takes(self, window: AlgorithmWindow, request: PlanRequest) -> bool:
        return _misfit(window, request) is None and self._unmet_demand(window, request) is None

    def _unmet_demand(self, window: AlgorithmWindow, request: PlanRequest) -> str | None:
        built = self._build(window, request)
        return unmet_demand(built.plan, built.verdict, request)

    def _why_not(self, name: str, chosen: AlgorithmWindow | None, request: PlanRequest) -> str:
        """Why an algorithm is not taken: an earlier row, a demand that it does not meet, the size, the layout."""
        rows = WINDOWS[request.kind]
        own = [window for window in rows if window.algorithm == name]
        if not own:
            return WITHOUT_WINDOW[name]
        fitting = next((window for window in own if _misfit(window, request) is None), None)
        if fitting is None:
            here = [window for window in own if window.when(layout_of(request.hosts)) is None] or own
            reason = _misfit(max(here, key=lambda window: window.max_bytes(request.num_ranks)), request)
        elif chosen is not None and rows.index(chosen) < rows.index(fitting):
            reason = f"{chosen.algorithm} comes first here"
        else:
            reason = self._unmet_demand(fitting, request)
        assert reason is not None, name
        return reason

    def _build(self, window: AlgorithmWindow, request: PlanRequest) -> Built:
        parameters = _parameters(window, request)
        key = (window.algorithm, window.message_bytes, tuple(parameters.items()))
        built = self._built.get(key)
        if built is None:
            compiled = compile_program(ALGORITHMS[window.algorithm].build(**parameters), self._options)
            plan = replace(compiled.plan, message_bytes=window.message_bytes)
            made = Built(plan, compiled.verdict, plan_digest(plan))
            built = self._built.setdefault(key, made)
        return built


def _misfit(window: AlgorithmWindow, request: PlanRequest) -> str | None:
    """Why the layout or the size is not that of the window, or None."""
    limit = window.max_bytes(request.num_ranks)
    too_large = f"it is for up to {_written(limit)} here" if request.num_bytes > limit else None
    return window.when(layout_of(request.hosts)) or too_large


def _parameters(window: AlgorithmWindow, request: PlanRequest) -> dict[str, Parameter]:
    """All that the algorithm's builder takes, from the request and the window; always in the same order."""
    names = _names(window.algorithm)
    ends = {"root": request.root, "source": request.root, "destination": request.peer}
    return {
        "ranks": request.num_ranks,
        "in_place": request.in_place,
        **{name: rank for name, rank in ends.items() if name in names},
        **({"levels": layout_of(request.hosts).levels} if "levels" in names else {}),
        **window.parameters,
    }


@lru_cache(maxsize=len(ALGORITHMS))
def _names(algorithm: str) -> frozenset[str]:
    return frozenset(ALGORITHMS[algorithm].parameters)


_written = lru_cache(maxsize=256)(format_bytes)


def own_and_library_plans(slots: int) -> PlanSource:
    """What communicators use when they are given nothing else: the user's own plans, then the library."""
    return with_own_plans(LibraryPlans(min(slots, LIBRARY_SLOTS)), slots=slots)
