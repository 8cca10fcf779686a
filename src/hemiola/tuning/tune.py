"""tune: the best plan for every size of a request, and why.

At sizes sixteen times apart, all candidates are searched; at the sizes between them, those that were fastest at the two neighbours.
What the runtime would have done anyway stays unless another plan is faster, and so does the plan of the size before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hemiola.cost.bounds.lower_bound import Bound
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from hemiola.errors import TopologyError
from hemiola.ir.plan import Plan
from hemiola.simulator.runtimes.runtime_model import RuntimeModel
from hemiola.tuning.candidate import Candidate
from hemiola.tuning.candidate_space import CandidateSpace
from hemiola.tuning.plan_search import PlanSearch, TimedPlan
from hemiola.units import format_bytes

TIE = 1e-3
"""A plan replaces another only where it takes this much less time."""
SEARCHED_FACTOR = 16
"""Between sizes at which all candidates are searched."""
NUM_KEPT = 8
"""Candidates of such a size that are tried at its neighbours."""

STOCK = {
    "allreduce_ring": "ring",
    "allreduce_double_binary_tree": "tree",
    "allgather_ring": "ring",
    "reducescatter_ring": "ring",
    "broadcast_chain": "ring",
    "reduce_chain": "ring",
}
"""Algorithms that NCCL has too, and how it calls them."""


@dataclass(frozen=True, slots=True)
class TunedSize:
    """What was found at one size; all times are replayed."""

    num_bytes: int
    chosen: TimedPlan
    default: TimedPlan
    """What the runtime takes by itself."""
    second: TimedPlan | None
    """The best of other algorithms than the chosen."""
    stock: TimedPlan | None
    """The best of those that NCCL has too."""
    bound: Bound

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "bytes": self.num_bytes,
            "seconds": self.chosen.seconds,
            "source": TimeSource.REPLAYED,
            "default_seconds": self.default.seconds,
            "bound_seconds": self.bound.seconds,
        }


@dataclass(frozen=True, slots=True)
class TunedWindow:
    """Neighbouring sizes with the same plan."""

    min_bytes: int
    max_bytes: int
    sizes: tuple[TunedSize, ...]
    why: str

    @property
    def chosen(self) -> TimedPlan:
        """The plan, timed at the smallest size."""
        return self.sizes[0].chosen

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        candidate, plan = self.chosen.candidate, self.chosen.plan
        return {
            "min_bytes": self.min_bytes,
            "max_bytes": self.max_bytes,
            "plan": self.chosen.name,
            "algorithm": plan.name if candidate is None else candidate.algorithm,
            "program": None if candidate is None or candidate.program is None else str(candidate.program),
            "parameters": {} if candidate is None else dict(candidate.parameters),
            "is_default": candidate is None,
            "instances": 1 if candidate is None else candidate.instances,
            "channels": plan.num_channels,
            "protocol": plan.protocol.value,
            "message_bytes": plan.message_bytes,
            "why": self.why,
            "rows": [one.to_json() for one in self.sizes],
        }


@dataclass(frozen=True)
class Tuning:
    """The plans of a request from a smallest to a largest size."""

    request: CollectiveRequest
    windows: tuple[TunedWindow, ...]
    space: CandidateSpace

    def window(self, num_bytes: int) -> TunedWindow:
        """The window that a size falls into; sizes outside have the nearest one."""
        return next((one for one in self.windows if num_bytes <= one.max_bytes), self.windows[-1])

    def plan(self, num_bytes: int) -> Plan:
        """The plan for a size."""
        return self.window(num_bytes).chosen.plan

    @property
    def sizes(self) -> list[TunedSize]:
        """All sizes that were tuned."""
        return [size for window in self.windows for size in window.sizes]

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "collective": self.request.kind,
            "system": self.request.system.name,
            "num_ranks": self.request.num_ranks,
            "num_groups": len(self.request.groups),
            "windows": [window.to_json() for window in self.windows],
        }


def tune(
    request: CollectiveRequest,
    sizes: Sequence[int],
    *,
    runtime: RuntimeModel | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tuning:
    """The plans of a request at ``sizes``, which ascend; ``progress`` hears how many of them are done."""
    if request.num_ranks < 2:
        raise TopologyError(
            f"a {request.kind} of one device on system {request.system.name!r} moves nothing, and there is nothing to tune"
        )
    search = PlanSearch(CandidateSpace(request), runtime)
    return _Tuner(search, list(sizes)).run(progress)


@dataclass(frozen=True)
class _Tuner:
    search: PlanSearch
    sizes: list[int]

    def run(self, progress: Callable[[int, int], None]) -> Tuning:
        fast: dict[int, list[Candidate]] = {}
        for size in self._searched_sizes():
            progress(len(fast), len(self.sizes) + len(self._searched_sizes()))
            fast[size] = self._fastest(size, self.search.space.candidates)
        rows: list[TunedSize] = []
        for size in self.sizes:
            progress(len(fast) + len(rows), len(self.sizes) + len(fast))
            rows.append(self._row(size, fast, rows[-1].chosen if rows else None))
        windows = tuple(self._window(group) for group in _same_plan(rows))
        return Tuning(self.search.request, windows, self.search.space)

    def _searched_sizes(self) -> list[int]:
        found = [self.sizes[0]]
        for size in self.sizes:
            if size >= found[-1] * SEARCHED_FACTOR:
                found.append(size)
        return found if found[-1] == self.sizes[-1] else [*found, self.sizes[-1]]

    def _fastest(self, size: int, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The fastest few, each of another family, and the fastest of those that NCCL has too."""
        ranked = self.search.explore(size, [one for one in candidates if one.algorithm not in STOCK])
        stock = self.search.explore(size, [one for one in candidates if one.algorithm in STOCK])
        return [*_of_other_families(ranked)[:NUM_KEPT], *_of_other_families(stock)[:2]]

    def _row(self, size: int, fast: dict[int, list[Candidate]], before: TimedPlan | None) -> TunedSize:
        search = self.search
        if size in fast:
            ranked = fast[size]
        else:
            below = max((one for one in fast if one < size), default=None)
            above = min((one for one in fast if one > size), default=None)
            near = [one for known in (below, above) if known is not None for one in fast[known]]
            ranked = self._fastest(size, list(dict.fromkeys(near)))
        default = search.default(size)
        ordinary = [one for one in ranked if one.algorithm not in STOCK]
        stock = [one for one in ranked if one.algorithm in STOCK]
        timed = [search.replayed(one, size) for one in (*ordinary[:3], *stock[:1])]
        ordered = sorted([*timed, default], key=lambda one: one.seconds)
        chosen = self._settled(ordered[0], default, before, size)
        others = (one for one in ordered if _family(one) != _family(chosen) and one is not default)
        return TunedSize(
            size,
            chosen,
            default,
            next(others, None),
            min((one for one in timed if _is_stock(one)), key=lambda one: one.seconds, default=None),
            search.bound(size),
        )

    def _settled(self, best: TimedPlan, default: TimedPlan, before: TimedPlan | None, size: int) -> TimedPlan:
        """The default, or the plan of the size before, where the best is not faster."""
        enough = best.seconds / (1 - TIE)
        if default.seconds <= enough:
            return default
        if before is None or before.candidate is None or before.candidate == best.candidate:
            return best
        again = self.search.replayed(before.candidate, size)
        return again if again.seconds <= enough else best

    def _window(self, rows: Sequence[TunedSize]) -> TunedWindow:
        last = rows[-1].num_bytes
        after = next((size for size in self.sizes if size > last), None)
        return TunedWindow(rows[0].num_bytes, last if after is None else after - 1, tuple(rows), _why(rows))


def _of_other_families(ranked: Sequence[Candidate]) -> list[Candidate]:
    found: dict[tuple[object, ...], Candidate] = {}
    for one in ranked:
        found.setdefault(one.family, one)
    return list(found.values())


def _family(timed: TimedPlan) -> object:
    return timed.plan.name if timed.candidate is None else timed.candidate.family


def _is_stock(timed: TimedPlan) -> bool:
    return timed.candidate is not None and timed.candidate.algorithm in STOCK


def _same_plan(rows: Sequence[TunedSize]) -> list[list[TunedSize]]:
    groups: list[list[TunedSize]] = []
    for row in rows:
        if groups and _key(groups[-1][-1].chosen) == _key(row.chosen):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _key(timed: TimedPlan) -> tuple[object, ...]:
    return (timed.candidate,) if timed.candidate is not None else (None, id(timed.plan))


def _why(rows: Sequence[TunedSize]) -> str:
    """The reason in a sentence, from the largest size of the window."""
    row = rows[-1]
    chosen, words = row.chosen, []
    if chosen.candidate is None:
        words.append("the runtime's own choice, and nothing is faster")
    else:
        words.append(
            f"{row.default.seconds / chosen.seconds:.2f} times as fast as the runtime's own {row.default.name}"
        )
    if row.second is not None and chosen.candidate is not None:
        words.append(f"{100 * (row.second.seconds / chosen.seconds - 1):.0f} % before {row.second.name}")
    if row.bound.seconds > 0:
        words.append(f"{chosen.seconds / row.bound.seconds:.2f} times the bound")
    return f"at {format_bytes(row.num_bytes)}: {', '.join(words)}"
