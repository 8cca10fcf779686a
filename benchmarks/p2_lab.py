"""Reduction programs of P², run for real in the lab, and how well they were ranked before.

    python benchmarks/p2_lab.py --out p2_lab.jsonl [--shapes 2x4,4x2,…] [--backends hemiola,gloo] [--quick] [--report]

On every shape, every placement of some axes and every reduction over one or two of them, all programs of two levels (a
seeded sample of 200 of three) are carried out by ``hemiola.torch.ReductionExecutor``, sums checked, and timed: the
median of the runs, the slowest rank. Results are appended to the file as they come; what is there already is not run again, and
``--report`` only prints. Whole it takes up to three hours on two cores; it takes root (network namespaces).

Predictions are sums of blocking steps in closed form. Three constants (the part of a NIC that data gets, what a call costs,
bytes per second inside a host) are fitted on the first shape alone, for each backend, and frozen.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.errors import LabError
from hemiola.lab.execute import execute
from hemiola.lab.lab import Starter
from hemiola.lab.namespaces import obstacle
from hemiola.lab.shape import Shape
from hemiola.lab.usage import Usage
from hemiola.placement.axes import parse_axes
from hemiola.placement.enumerate import enumerate_placements
from hemiola.report.machine import describe_machine
from hemiola.runtime.plan_source import Choice, Explanation, PlanRequest, plan_digest, provide_default
from hemiola.simulator.rescale import with_bandwidths
from hemiola.synthesis.costs import edge_costs
from hemiola.synthesis.program import parse_program
from hemiola.synthesis.search import paths_up_to
from hemiola.synthesis.share import device_groups, factors_of, shared_system
from hemiola.synthesis.table import table_of
from hemiola.topology.shapes import load_shape, shape_text
from hemiola.topology.system import System
from hemiola.tuning.library_plans import LibraryPlans

SHAPES = ("2x4", "4x2", "4x4", "2racks-2x2", "rails-2x4")
FITTED = SHAPES[0]
AXES: Mapping[int, tuple[str, ...]] = {
    8: ("a=8", "a=2,b=4", "a=4,b=2", "a=2,b=2,c=2"),
    16: ("a=16", "a=4,b=4", "a=2,b=8"),
}
BACKENDS = ("hemiola", "gloo")
NUM_BYTES: Mapping[str, int] = {
    "2x4": 1 << 20, "4x2": 1 << 20, "4x4": 1 << 19, "2racks-2x2": 1 << 19, "rails-2x4": 1 << 19
}  # fmt: skip
"""Of every device: a flat ring takes 75 to 150 ms."""
LEAST_RUNS, MOST_RUNS, SECONDS_OF_RUNS = 3, 5, 0.3
LONGEST = {1: 2, 2: 5, 3: 6}
"""Steps of the programs that are looked at, by depth; at depths 1 and 2 these are all there are."""
SAMPLE = 200
IMPROVED = 1.03
QUICK_PROGRAMS = 30
SECONDS_OF_A_SHAPE = 3600.0
FLAT = "allreduce(0, InsideGroup)"
TREE, LIBRARY = "double tree", "library"
"""All-reduces that are no programs: on hemiola only, on all devices of a group at once."""


@dataclass(frozen=True, slots=True)
class Case:
    """A reduction under a placement."""

    shape: str
    axes: str
    matrix: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]

    @property
    def factors(self) -> tuple[int, ...]:
        """Of the hierarchy, without ones."""
        return tuple(factor for factor in factors_of(self.matrix, self.rows) if factor > 1)

    @property
    def groups(self) -> list[list[int]]:
        """The devices that reduce with each other; a device's number follows its place in the hierarchy."""
        return sorted(sorted(group) for group in device_groups(self.matrix, self.rows))

    @property
    def key(self) -> str:
        """Of what is run: reductions of several placements have the same groups, and are run once."""
        return f"{self.shape} {self.groups}"


@dataclass(frozen=True, slots=True)
class Task:
    """A program, to be run."""

    case: str
    program: str
    factors: tuple[int, ...]
    groups: list[list[int]]
    num_bytes: int


def cases(shape: str) -> Iterator[Case]:
    """Every placement, and every reduction over one or two axes that spans more than one device."""
    system = load_shape(shape)
    for text in AXES[system.num_ranks]:
        axes = parse_axes(text)
        for placement in enumerate_placements(system, axes):
            for size in (1, 2):
                for rows in combinations(range(len(axes)), min(size, len(axes))):
                    case = Case(shape, text, placement.rows, rows)
                    if len(rows) == size and 1 <= len(case.factors) <= 3:
                        yield case


def programs(case: Case, *, quick: bool) -> list[str]:
    """The programs of a case: all, or a seeded sample that always has the shortest ones."""
    depth = len(case.factors)
    table = table_of(depth)
    found = [str(table.program(path)) for path in paths_up_to(table, LONGEST[depth])]
    limit = QUICK_PROGRAMS if quick else SAMPLE
    if len(found) <= limit:
        return found
    return [*found[:7], *random.Random(0).sample(found[7:], limit - 7)]


def tasks_of(shape: str, backend: str, *, quick: bool) -> Iterator[Task]:
    """What is to be run on a shape."""
    baselines = [TREE, LIBRARY] if backend == "hemiola" else []
    seen = set()
    for case in chosen(shape, quick=quick):
        if case.key not in seen:
            seen.add(case.key)
            for program in [*baselines, *programs(case, quick=quick)]:
                yield Task(case.key, program, case.factors, case.groups, NUM_BYTES[shape])


def run_shape(shape: str, backend: str, out: Path, *, quick: bool) -> None:
    """Run what is not in the file yet."""
    done = {(row["case"], row["program"]) for row in read(out) if row["backend"] == backend}
    tasks = [task for task in tasks_of(shape, backend, quick=quick) if (task.case, task.program) not in done]
    if not tasks:
        return
    print(f"{time.strftime('%H:%M:%S')} {shape} on {backend}: {len(tasks)} programs", flush=True)
    with (
        Starter(f"p2-{os.getpid()}-{shape}", Shape(shape, shape_text(shape))) as lab,
        tempfile.NamedTemporaryFile("w", suffix=".json") as asked,
    ):
        json.dump([asdict(task) for task in tasks], asked)
        asked.flush()
        script = str(Path(__file__).resolve())
        code = execute(
            lab, [sys.executable, script, "--rank", asked.name, "--backends", backend, "--out", str(out.resolve())],
            timeout=SECONDS_OF_A_SHAPE,
        )  # fmt: skip
    if code != 0:
        raise LabError(
            f"the ranks on {shape} with {backend} ended with {code}; what they measured is in {out}"
        )


def chosen(shape: str, *, quick: bool) -> list[Case]:
    """All cases of a shape, or the one that reduces over everything."""
    found = list(cases(shape))
    return (
        [case for case in found if math.prod(case.factors) == load_shape(shape).num_ranks][:1]
        if quick
        else found
    )


class StepPlans:
    """The plans of steps on our own runtime: rings and chains, as the steps of P² are, and not what the library would choose.

    The library knows hosts, so that its all-reduce is hierarchical by itself; it is measured too, as a baseline.
    """

    RINGS: Mapping[str, str] = {
        "allreduce": "allreduce_ring", "reducescatter": "reducescatter_ring", "allgather": "allgather_ring",
        "reduce": "reduce_chain", "broadcast": "broadcast_chain",
    }  # fmt: skip

    def __init__(self) -> None:
        self.mode = LIBRARY
        self._library = LibraryPlans()
        self._built: dict[tuple[str, PlanRequest], Choice] = {}

    def choose(self, request: PlanRequest) -> Choice:
        """A ring or a chain, two trees, or what the library says."""
        if self.mode == LIBRARY or request.kind not in self.RINGS:
            return self._library.choose(request)
        trees = self.mode == TREE and request.kind == "allreduce"
        name = "allreduce_double_binary_tree" if trees else self.RINGS[request.kind]
        known = self._built.get((name, request))
        if known is None:
            rooted = {"root": request.root} if "root" in ALGORITHMS[name].parameters else {}
            program = ALGORITHMS[name].build(ranks=request.num_ranks, in_place=request.in_place, **rooted)
            plan = compile_program(program).plan
            known = Choice(plan, plan_digest(plan), "as a step of P²")
            self._built[name, request] = known
        return known

    def explain(self, request: PlanRequest) -> Explanation:
        """The choice alone."""
        return Explanation(request, self.choose(request), ())


def be_rank(asked: Path, backend: str, out: Path) -> None:
    """A rank: run all tasks, and on rank 0 write what was measured."""
    import torch
    import torch.distributed as dist

    from hemiola.torch import ReductionExecutor

    torch.set_num_threads(1)
    plans = StepPlans()
    provide_default(lambda slots: plans)
    dist.init_process_group(backend)
    rank = dist.get_rank()
    for task in json.loads(asked.read_text()):
        factors = tuple(task["factors"])
        plans.mode = LIBRARY
        dist.barrier()
        text = FLAT if task["program"] in (TREE, LIBRARY) else task["program"]
        executor = ReductionExecutor(parse_program(text, len(factors)), factors, task["groups"])
        group = next(group for group in task["groups"] if rank in group)
        data = torch.empty(task["num_bytes"] // 4)
        times: list[float] = []
        earlier = Usage.now()
        while len(times) <= LEAST_RUNS or (len(times) <= MOST_RUNS and sum(times) < SECONDS_OF_RUNS):
            data.fill_(float(rank))
            plans.mode = LIBRARY
            dist.barrier()
            plans.mode = task["program"]
            begin = time.perf_counter()
            executor.all_reduce(data)
            seconds = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
            plans.mode = LIBRARY
            assert (data == sum(group)).all(), f"{task['program']} computed a wrong sum"
            dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
            times.append(float(seconds))
        busy = Usage.now().busy_since(earlier)
        executor.close()
        if rank == 0:
            row = {
                "backend": backend, "case": task["case"], "program": task["program"], "num_bytes": task["num_bytes"],
                "seconds": times[1:], "busy": round(busy, 3),
            }  # fmt: skip
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    dist.destroy_process_group()


@dataclass(frozen=True, slots=True)
class Constants:
    """What a backend costs beside the described rates."""

    efficiency: float
    call_seconds: float
    memory_bandwidth: float

    def apply(self, system: System) -> System:
        """The system as the backend finds it."""
        depth = system.host_depth
        changed = with_bandwidths(system, self.efficiency, range(depth))
        link = changed.levels[-1].link
        assert link is not None
        inside = replace(link, bandwidth_in=self.memory_bandwidth, bandwidth_out=self.memory_bandwidth)
        return replace(changed, levels=(*changed.levels[:-1], replace(changed.levels[-1], link=inside)))

    def predict(self, case: Case, asked: Sequence[str]) -> list[float]:
        """Seconds of programs, each step waiting for the one before."""
        table = table_of(len(case.factors))
        share = shared_system(self.apply(load_shape(case.shape)), case.matrix, case.rows)
        costs = edge_costs(table, share, NUM_BYTES[case.shape])
        paths = {str(table.program(path)): path for path in paths_up_to(table, LONGEST[len(case.factors)])}
        return [costs.blocking(paths[one]) + self.call_seconds * len(paths[one]) for one in asked]


def fit(rows: Mapping[str, Mapping[str, float]]) -> Constants:
    """The constants of a backend from the cases of the first shape."""
    known = [case for case in cases(FITTED) if case.key in rows]

    def errors(logs: Any) -> Any:
        constants = Constants(*np.exp(logs).tolist())
        return np.concatenate(
            [
                np.log(
                    np.array(constants.predict(case, list(rows[case.key]))) / list(rows[case.key].values())
                )
                for case in known
            ]
        )

    start = np.log([0.95, 1e-3, 1e9])
    bounds = (np.log([0.5, 1e-6, 5e7]), np.log([1.0, 0.1, 1e11]))
    found = least_squares(
        errors, start, bounds=bounds, loss="soft_l1", f_scale=0.1, diff_step=1e-3, max_nfev=40
    )
    return Constants(*(float(f"{number:.4g}") for number in np.exp(found.x)))


def read(out: Path) -> list[dict[str, Any]]:
    """Rows that were measured."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def report(out: Path) -> None:
    """How well the programs were ranked, backend by backend."""
    for backend in BACKENDS:
        mine = [row for row in read(out) if row["backend"] == backend]
        medians: dict[str, dict[str, float]] = {}
        spreads: dict[str, dict[str, float]] = {}
        for row in mine:
            median = statistics.median(row["seconds"])
            medians.setdefault(row["case"], {})[row["program"]] = median
            spreads.setdefault(row["case"], {})[row["program"]] = (
                max(row["seconds"]) - min(row["seconds"])
            ) / median
        if not any(key.startswith(f"{FITTED} ") for key in medians):
            continue
        constants = fit(medians)
        print(f"\n{backend}: {constants}, fitted on {FITTED}")
        print(f"  {'case':<58} programs  top1 top5 top10  regret  Spearman  error  best/flat  worst/best")
        lines = []
        for shape in SHAPES:
            for case in cases(shape):
                if case.key in medians and len(medians[case.key]) > 3:
                    lines.append(_line(case, medians[case.key], spreads[case.key], constants))
                    print(lines[-1][0], flush=True)
        _summary([line[1] for line in lines])


def _line(
    case: Case, measured: Mapping[str, float], spread: Mapping[str, float], constants: Constants
) -> tuple[str, dict[str, float]]:
    names = list(measured)
    seconds = np.array([measured[name] for name in names])
    predicted = np.array(constants.predict(case, names))
    order = np.argsort(predicted, kind="stable")
    best = float(seconds.min())
    # Programs within the spread of their repetitions are ties.
    tie = best * (1 + statistics.median(spread.values()))
    top = {k: bool((seconds[order[:k]] <= tie).any()) for k in (1, 5, 10)}
    flat = measured.get("allreduce(0, InsideGroup)", math.nan)
    facts = {
        "top1": top[1], "top5": top[5], "top10": top[10], "regret": float(seconds[order[0]]) / best - 1,
        "spearman": float(spearmanr(predicted, seconds).statistic),
        "error": float(np.median(np.abs(predicted / seconds - 1))), "gain": flat / best,
        "spread": float(seconds.max()) / best, "best": best,
    }  # fmt: skip
    words = f"{case.shape}, {case.axes} as {case.matrix}, over {case.rows}"
    text = (
        f"  {words:<58} {len(names):>8}  {'yes' if top[1] else 'no':>4} {'yes' if top[5] else 'no':>4} "
        f"{'yes' if top[10] else 'no':>5}  {100 * facts['regret']:>5.1f}%  {facts['spearman']:>8.3f} {100 * facts['error']:>5.1f}%"
        f"  {facts['gain']:>9.2f}  {facts['spread']:>10.1f}"
    )
    return text, facts


def _summary(facts: Sequence[Mapping[str, float]]) -> None:
    if not facts:
        return
    gains = [one["gain"] for one in facts if not math.isnan(one["gain"])]
    better = [gain for gain in gains if gain > IMPROVED]
    print(
        f"  of {len(facts)} cases: top-1 {_share(facts, 'top1')}, top-5 {_share(facts, 'top5')}, top-10 {_share(facts, 'top10')}; "
        f"median regret {100 * statistics.median(one['regret'] for one in facts):.1f} %, "
        f"median Spearman {statistics.median(one['spearman'] for one in facts):.3f}, "
        f"median error {100 * statistics.median(one['error'] for one in facts):.1f} %; "
        f"{len(better)} of {len(gains)} improved by more than 3 %, on average {statistics.mean(gains) if gains else 1:.2f} times as fast, "
        f"at most {max(gains, default=1):.2f}"
    )


def _share(facts: Sequence[Mapping[str, float]], name: str) -> str:
    return f"{100 * sum(bool(one[name]) for one in facts) / len(facts):.0f} %"


def main() -> int:
    """Run what is missing, and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where results are, and go")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--quick", action="store_true", help="one reduction of each shape, and few programs")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    parser.add_argument("--rank", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        be_rank(options.rank, options.backends, options.out)
        return 0
    if not options.report:
        if (problem := obstacle()) is not None:
            raise LabError(problem)
        for shape in options.shapes.split(","):
            for backend in options.backends.split(","):
                run_shape(shape, backend, options.out, quick=options.quick)
    print(describe_machine())
    report(options.out)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"p2_lab: {error}")
