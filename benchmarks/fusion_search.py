"""How fast a good fusion plan is found, beside the search of the DisCo paper with ten times the candidates.

    python benchmarks/fusion_search.py [--models NAME …] [--candidates 2000] [--ratio 1] [--device gpu|cpu] [--split] [--trace DIR] [--json fusion_search.json]

The steps are synthetic (hemiola/fusion/synthetic): shapes of seven models and one of about 2,500 operators, on a device that is a roofline; the estimator is
that roofline, in Python, and its time is part of the search. An all-reduce of all gradients in one message takes --ratio times the computation of the step as one
graph. All seconds are CPU seconds of one core. The reference does not give up: it looks at all of its candidates, so that it has its
best chance; both searches begin with an empty table of estimates. Also printed: what one evaluation and one exact merging take.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from hemiola.fusion.baselines import single_buckets, single_groups
from hemiola.fusion.bounds import least_operator_seconds, step_bounds
from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.evaluate import BucketTables, StepEvaluator, first_groups
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.reference_search import reference_search
from hemiola.fusion.search import SearchOptions, SearchResult, search
from hemiola.fusion.search_state import Progress
from hemiola.fusion.synthetic.models import MODELS, large_step
from hemiola.fusion.synthetic.roofline_times import CPU_CORE, GPU, Roofline, RooflineTimes
from hemiola.fusion.timeline import write_step_trace
from hemiola.report.machine import describe_machine

NEAR = 1.01
"""Within one percent of the final cost."""
STEPS = {**MODELS, "large": large_step}
DEVICES = {"gpu": GPU, "cpu": CPU_CORE}
LATENCIES = {"gpu": 30e-6, "cpu": 1e-3}
"""Of an all-reduce on each device."""


@dataclass(frozen=True)
class Curve:
    """A search: CPU seconds, candidates and cost of every better plan."""

    points: tuple[tuple[float, int, float], ...]
    seconds: float
    """Of the best plan."""
    cpu_seconds: float
    num_candidates: int

    @property
    def near(self) -> tuple[float, int]:
        """CPU seconds and candidates until the cost was near the final one."""
        return next(
            (spent, number) for spent, number, cost in self.points if cost <= NEAR * self.points[-1][2]
        )


@dataclass(frozen=True)
class Row:
    """One step."""

    model: str
    num_operators: int
    num_gradients: int
    bound_seconds: float
    in_step_seconds: float
    best_baseline: str
    best_baseline_seconds: float
    num_groups: int
    num_buckets: int
    ours: Curve
    near_seconds: float
    near_candidates: int
    reference: Curve
    evaluation_microseconds: float
    merging_microseconds: float


def timed(run: Callable[[Progress], SearchResult]) -> Curve:
    """A search with its curve; ``run`` takes a progress callback."""
    points: list[tuple[float, int, float]] = []
    begin = time.process_time()
    found = run(lambda number, cost: points.append((time.process_time() - begin, number, cost)))
    return Curve(tuple(points), found.step.seconds, time.process_time() - begin, found.num_candidates)


def microseconds(call: Callable[[], object], repeat: int = 50) -> float:
    """The median CPU time of a call."""
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return statistics.median(times) * 1e6


def collectives_of(graph: OpGraph, device: str, ratio: float) -> CollectiveTimes:
    """Whose all-reduce of everything takes so many times the computation."""
    whole = RooflineTimes(graph, DEVICES[device]).seconds([tuple(range(len(graph.operators)))])[0]
    return CollectiveTimes.line(LATENCIES[device], ratio * float(whole) / graph.gradient_bytes, 4)


def measure(name: str, options: argparse.Namespace) -> Row:
    """Both searches of one step."""
    graph, device = STEPS[name](), DEVICES[options.device]
    collectives = collectives_of(graph, options.device, options.ratio)
    chosen = SearchOptions(max_candidates=options.candidates, split=options.split, seed=options.seed)
    fresh = RooflineTimes(graph, device)
    ours = timed(lambda progress: search(graph, fresh, collectives, chosen, progress=progress))
    reference = timed(
        lambda progress: reference_search(
            graph,
            RooflineTimes(graph, device),
            collectives,
            seed=options.seed,
            max_candidates=10 * options.candidates,
            patience=10 * options.candidates,
            progress=progress,
        )
    )
    found = search(graph, fresh, collectives, chosen)
    if options.trace:
        write_step_trace(Path(options.trace) / f"{name}.json", graph, found.plan, fresh, collectives)
    bounds = step_bounds(graph, least_of(graph, fresh, device), collectives)
    best = min(found.baselines, key=lambda one: found.baselines[one])
    evaluation, merging = primitive_times(graph, fresh, collectives)
    return Row(
        name,
        len(graph.operators),
        len(graph.gradients),
        bounds.of(found.plan),
        bounds.in_step_seconds,
        best,
        found.baselines[best],
        len(found.plan.groups),
        len(found.plan.buckets),
        ours,
        *ours.near,
        reference,
        evaluation,
        merging,
    )


def least_of(graph: OpGraph, times: RooflineTimes, device: Roofline) -> np.ndarray:
    """What operators take at least on a roofline."""
    return least_operator_seconds(
        graph, times, bytes_per_second=device.bytes_per_second, call_seconds=device.call_seconds
    )


def primitive_times(
    graph: OpGraph, times: RooflineTimes, collectives: CollectiveTimes
) -> tuple[float, float]:
    """Microseconds of an evaluation and of an exact merging where nothing is fused."""
    groups = single_groups(graph)
    seconds, home = times.seconds(groups), first_groups(graph, groups)
    evaluator, buckets = StepEvaluator(graph, collectives), BucketTables.of(single_buckets(graph, groups))
    ready, read = evaluator.ready_groups(home), evaluator.read_groups(home)
    return (
        microseconds(lambda: evaluator.step(seconds, home, buckets)),
        microseconds(lambda: evaluator.model.merge_step(seconds, ready, read, True)),
    )


def print_row(row: Row) -> None:
    """One line for people."""
    ours, reference = row.ours, row.reference
    print(
        f"{row.model:12} {row.num_operators:6} {row.num_gradients:5} {ours.seconds * 1e3:9.3f} {ours.seconds / row.bound_seconds:7.3f}"
        f" {ours.seconds / row.in_step_seconds:8.3f} {row.best_baseline_seconds / ours.seconds:9.3f} {row.near_seconds:7.2f} {row.near_candidates:7}"
        f" {ours.cpu_seconds:7.2f} {reference.seconds / ours.seconds:10.4f} {reference.cpu_seconds:9.1f}"
        f" {row.evaluation_microseconds:7.0f} {row.merging_microseconds:7.0f}",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--ratio", type=float, default=1.0)
    parser.add_argument("--device", choices=list(DEVICES), default="gpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", action="store_true")
    parser.add_argument("--trace", help="a folder for timelines of the plans found")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(describe_machine())
    print(
        f"{'model':12} {'ops':>6} {'grads':>5} {'ours ms':>9} {'/bound':>7} {'/in-step':>8} {'baseline/':>9} {'1% at s':>7} {'1% at':>7}"
        f" {'total s':>7} {'reference/':>10} {'its s':>9} {'eval us':>7} {'merge us':>7}"
    )
    rows = []
    for name in options.models:
        rows.append(measure(name, options))
        print_row(rows[-1])
    if options.json:
        document = {"machine": describe_machine(), "options": vars(options) | {"json": None}, "rows": [asdict(row) for row in rows]}  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
