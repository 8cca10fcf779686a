"""Reduction programs of P², run for real in the lab, and how well they were ranked before.

    python benchmarks/p2_lab.py --out p2_lab.jsonl [--shapes 2x4,4x2,…] [--backends hemiola,gloo] [--quick] [--report]
                                [--page docs/p2_results.md]

On every shape, every placement of some axes and every reduction over one or two of them, all programs of two levels (a
seeded sample of 200 of three) are carried out by ``hemiola.torch.ReductionExecutor``, sums checked, and timed: the
median of the runs, the slowest rank. Results are appended to the file as they come; what is there already is not run again, and
``--report`` only prints. Whole it takes about 75 minutes on two cores; it takes root (network namespaces).

Predictions are sums of blocking steps in closed form. Three constants (the part of a NIC that data gets, what a call costs,
bytes per second inside of hosts) are fitted on the first shape alone, for each backend, and frozen.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from hemiola.algorithms.library import ALGORITHMS
from hemiola.compiler.compile import compile_program
from hemiola.cost.estimates.gloo_steps import GlooClock
from hemiola.cost.estimates.grouped_steps import RingClock, StepClock
from hemiola.cost.estimates.shared_system import shared_system
from hemiola.errors import LabError
from hemiola.lab.execute import execute
from hemiola.lab.lab import Starter
from hemiola.lab.namespaces import obstacle
from hemiola.lab.shape import Shape
from hemiola.lab.usage import MOST_BUSY, Usage
from hemiola.placement.axes import parse_axes
from hemiola.placement.enumerate import enumerate_placements
from hemiola.placement.groups import device_groups
from hemiola.placement.matrix import ParallelismMatrix
from hemiola.report.machine import describe_machine
from hemiola.runtime.default_source import provide_default
from hemiola.runtime.plans.plan_source import Choice, Explanation, PlanRequest, plan_digest
from hemiola.synthesis.costs import edge_costs
from hemiola.synthesis.program import parse_program
from hemiola.synthesis.search import paths_up_to
from hemiola.synthesis.table import table_of
from hemiola.topology.rescale import with_bandwidths
from hemiola.topology.shapes import load_shape, shape_text
from hemiola.topology.system import Compute, System
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
MOST_TRIES = 2
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
        split = (
            math.prod(self.matrix[row][level] for row in self.rows) for level in range(len(self.matrix[0]))
        )
        return tuple(factor for factor in split if factor > 1)

    @property
    def groups(self) -> list[list[int]]:
        """The devices that reduce with each other; a device's number follows its place in the hierarchy."""
        axes, counts = parse_axes(self.axes), tuple(map(math.prod, zip(*self.matrix, strict=True)))
        found = device_groups(
            ParallelismMatrix(axes, counts, self.matrix), [axes[row].name for row in self.rows]
        )
        return sorted(sorted(group) for group in found.tolist())

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
    """Run what is not in the file yet, and once more what ran while the machine was busy."""
    before: dict[tuple[str, str], list[float]] = {}
    for row in read(out):
        if row["backend"] == backend:
            before.setdefault((row["case"], row["program"]), []).append(row["busy"])
    done = {key for key, busy in before.items() if min(busy) <= MOST_BUSY or len(busy) >= MOST_TRIES}
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
        # Different in every rank and chunk, so that neither a lost nor a misplaced part goes unseen.
        pattern = 1.0 + torch.arange(task["num_bytes"] // 4) % 251
        own, total = (rank + 1) * pattern, sum(member + 1 for member in group) * pattern
        data = torch.empty_like(own)
        times: list[float] = []
        earlier = Usage.now()
        while len(times) <= LEAST_RUNS or (len(times) <= MOST_RUNS and sum(times) < SECONDS_OF_RUNS):
            data.copy_(own)
            plans.mode = LIBRARY
            dist.barrier()
            plans.mode = task["program"]
            begin = time.perf_counter()
            executor.all_reduce(data)
            seconds = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
            plans.mode = LIBRARY
            assert torch.equal(data, total), f"{task['program']} computed a wrong sum"
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
    """What a backend costs beside the described rates; all ranks of a lab share the cores of one machine."""

    efficiency: float
    """The part of a NIC's rate that data gets."""
    call_seconds: float
    """Of a core, for every call of every rank."""
    memory_bandwidth: float
    """Bytes per second that all ranks together copy and add, for whatever they send."""

    def apply(self, system: System) -> System:
        """The system as the backend finds it: inside of a host, only the cores limit."""
        changed = with_bandwidths(system, self.efficiency, range(system.host_depth))
        link = changed.levels[-1].link
        assert link is not None
        inside = replace(link, bandwidth_in=NO_LIMIT, bandwidth_out=NO_LIMIT)
        cores = Compute(host_core_bandwidth=self.memory_bandwidth / system.num_hosts)
        levels = (*changed.levels[:-1], replace(changed.levels[-1], link=inside))
        return replace(changed, levels=levels, compute=cores)

    def predict(self, case: Case, backend: str, asked: Sequence[str]) -> list[float]:
        """Seconds of programs, each step waiting for the one before."""
        system, depth = load_shape(case.shape), len(case.factors)
        table, paths = table_of(depth), paths_by_name(depth)
        share = shared_system(self.apply(system), np.array(case.groups))
        costs = edge_costs(table, share, NUM_BYTES[case.shape], CLOCKS[backend])
        call = self.call_seconds * system.num_ranks / CORES
        return [costs.blocking(paths[one]) + call * len(paths[one]) for one in asked]


CLOCKS: Mapping[str, Callable[[System], StepClock]] = {"hemiola": RingClock, "gloo": GlooClock}
CORES = os.cpu_count() or 1
NO_LIMIT = 1e15


@cache
def paths_by_name(depth: int) -> dict[str, tuple[int, ...]]:
    """The edges of every program that is looked at."""
    table = table_of(depth)
    return {str(table.program(path)): tuple(path) for path in paths_up_to(table, LONGEST[depth])}


def fit(measured: Mapping[str, Results], backend: str) -> Constants:
    """The constants of a backend from the reductions of the first shape, each of which counts alike."""
    known = {case.key: case for case in cases(FITTED) if case.key in measured}.values()

    def errors(logs: Any) -> Any:
        constants = Constants(*np.exp(logs).tolist())
        parts = []
        for case in known:
            names, seconds = measured[case.key].programs()
            predicted = np.array(constants.predict(case, backend, names))
            parts.append(np.log(predicted / seconds) / math.sqrt(len(names)))
        return np.concatenate(parts)

    start = np.log([0.95, 1e-3, 4e9])
    bounds = (np.log([0.5, 1e-6, 1e8]), np.log([1.0, 0.1, 1e12]))
    found = least_squares(
        errors, start, bounds=bounds, loss="soft_l1", f_scale=0.1, diff_step=1e-3, max_nfev=40
    )
    return Constants(*(float(f"{number:.4g}") for number in np.exp(found.x)))


@dataclass(frozen=True, slots=True)
class Results:
    """What was measured of one reduction: the seconds of each run, by program."""

    runs: Mapping[str, Sequence[float]]

    def median(self, program: str) -> float:
        """Seconds of a program, or not a number where it was not run."""
        return statistics.median(self.runs[program]) if program in self.runs else math.nan

    def programs(self) -> tuple[list[str], Any]:
        """The programs, without the baselines that are none, and their seconds."""
        names = [name for name in self.runs if name not in (TREE, LIBRARY)]
        return names, np.array([self.median(name) for name in names])

    @property
    def spread(self) -> float:
        """Of the runs of a program, at the median: programs that are this close are ties."""
        names, _ = self.programs()
        return statistics.median(
            (max(self.runs[name]) - min(self.runs[name])) / self.median(name) for name in names
        )

    @property
    def default(self) -> float:
        """The best of the ring and the tree over all devices of a group."""
        tree = (
            self.median(TREE)
            if TREE in self.runs
            else self.median("reduce(0, InsideGroup); broadcast(0, InsideGroup)")
        )
        return float(np.nanmin([self.median(FLAT), tree]))


def read(out: Path) -> list[dict[str, Any]]:
    """Rows that were measured."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def results(out: Path, backend: str) -> dict[str, Results]:
    """All that a backend has run, by reduction; of what was run twice, that with the less busy machine."""
    found: dict[str, dict[str, Sequence[float]]] = {}
    for row in sorted(read(out), key=lambda row: -float(row["busy"])):
        if row["backend"] == backend:
            found.setdefault(row["case"], {})[row["program"]] = row["seconds"]
    return {case: Results(runs) for case, runs in found.items()}


TOPS = (1, 5, 10)
ALL_OF_TWO = 104
"""Programs of two levels."""
HEAD = """# Programs of P² in the lab

Made by `.venv/bin/python benchmarks/p2_lab.py --out p2_lab.jsonl --page docs/p2_results.md`, which says at its top what is done. Each row is a
reduction, over all levels that its axes span; reductions of several placements that have the same groups were run once. Programs were
carried out through `hemiola.torch.ReductionExecutor`, each step a ring or a chain on our own runtime, and whatever Gloo does on Gloo; sums were
checked. *top-k*: the fastest program, or one within the spread of repetitions of it, is among the k that were predicted to be fastest; *best*: the very fastest is the first. *spread*: of repetitions, at the median. *regret*: how
much slower the first choice is than the fastest, whether or not it ties. *error*: of the predicted times, at the median. *ring or tree*: the faster of a flat ring and a double
tree on our own runtime, and of all-reduce and reduce with broadcast on Gloo. *library*: what our library chooses by itself.

Three constants were fitted for each backend to the rows of 2x4 alone. What is not fitted, the form of the model, was chosen by people who had seen
measurements: that the ranks of all hosts share the cores of one machine, and what Gloo sends for each collective. A constant can end at its bound (efficiency 1): the
buckets that shape the NICs let a burst of 2.5 ms pass at once, and groups that work side by side do not wait for each other between steps, as predictions say they do, so some
programs are faster than predicted. Programs were run one after another, three to five times each, so a change of the machine's speed within a row counts as theirs.

"""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well the programs of one reduction were ranked, and what the best of them gains."""

    case: Case
    num_placements: int
    """Reductions under placements that have these groups."""
    num_programs: int
    tops: Mapping[int, bool]
    """Whether one of so many first choices is the best, or ties with it."""
    is_best: bool
    """Whether the first choice is the fastest, without ties."""
    spread: float
    """Of repetitions: programs that are this close are ties."""
    regret: float
    """How much slower the first choice is than the fastest, ties or not."""
    spearman: float
    error: float
    gain: float
    """Of the fastest over the best of ring and tree."""
    gain_of_first: float
    """Of the first choice over the same."""
    over_library: float
    worst: float
    """Times the best program's time."""

    def cells(self) -> list[str]:
        """A row for people."""
        return [
            self.case.shape,
            " x ".join(map(str, self.case.factors)),
            str(len(self.case.groups)),
            str(self.num_placements),
            str(self.num_programs),
            f"{'yes' if self.is_best else 'no'}/" + "/".join("yes" if self.tops[k] else "no" for k in TOPS),
            f"{100 * self.spread:.1f} %",
            f"{100 * self.regret:.1f} %",
            f"{self.spearman:.3f}",
            f"{100 * self.error:.1f} %",
            f"{self.gain:.2f}",
            f"{self.gain_of_first:.2f}",
            "" if math.isnan(self.over_library) else f"{self.over_library:.2f}",
            f"{self.worst:.1f}",
        ]


HEADER = (
    "shape", "factors", "groups", "placements", "programs", f"best/top-{'/'.join(map(str, TOPS))}", "spread", "regret",
    "Spearman", "error", "ring or tree ÷ best", "÷ first", "library ÷ best", "worst ÷ best",
)  # fmt: skip


def judge(
    cases_of_groups: Sequence[Case], backend: str, measured: Results, constants: Constants
) -> Judgement:
    """Compare the order that was predicted with the one that was measured, for cases that have the same groups."""
    case = cases_of_groups[0]
    names, seconds = measured.programs()
    predicted = np.array(constants.predict(case, backend, names))
    order = np.argsort(predicted, kind="stable")
    best = float(seconds.min())
    tie = best * (1 + measured.spread)
    first = float(seconds[order[0]])
    return Judgement(
        case,
        len(cases_of_groups),
        len(names),
        {k: bool((seconds[order[:k]] <= tie).any()) for k in TOPS},
        first == best,
        measured.spread,
        first / best - 1,
        float(spearmanr(predicted, seconds).statistic),
        float(np.median(np.abs(predicted / seconds - 1))),
        measured.default / best,
        measured.default / first,
        measured.median(LIBRARY) / best,
        float(seconds.max()) / best,
    )


def report(out: Path) -> str:
    """How well the programs were ranked, backend by backend, as a page."""
    lines = [f"Measured on {describe_machine()}."]
    for backend in BACKENDS:
        measured = results(out, backend)
        if not any(key.startswith(f"{FITTED} ") for key in measured):
            continue
        constants = fit(measured, backend)
        judgements = [
            judge(alike, backend, measured[alike[0].key], constants)
            for shape in SHAPES
            for alike in by_groups(shape).values()
            if alike[0].key in measured and len(alike[0].factors) > 1
        ]
        lines += ["", f"## {backend}", "", f"Fitted on {FITTED}: {constants}.", ""]
        lines += [_row(HEADER), _row("---" for _ in HEADER), *(_row(one.cells()) for one in judgements)]
        lines += ["", *summarize(judgements), *placements(measured), busy_share(out, backend)]
    return "\n".join(lines) + "\n"


def busy_share(out: Path, backend: str) -> str:
    """Over how many programs the processor may have had more to say than the wire."""
    busy = [row["busy"] for row in read(out) if row["backend"] == backend and ";" in row["program"]]
    share = statistics.mean(one > MOST_BUSY for one in busy)
    return f"- During {100 * share:.0f} % of the programs more than {100 * MOST_BUSY:.0f} % of the cores were busy; the median is {100 * statistics.median(busy):.0f} %."


def by_groups(shape: str) -> dict[str, list[Case]]:
    """The cases of a shape that have the same groups, and are run once."""
    found: dict[str, list[Case]] = {}
    for case in cases(shape):
        found.setdefault(case.key, []).append(case)
    return found


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def summarize(judgements: Sequence[Judgement]) -> Iterator[str]:
    """All reductions of more than one level together, and without those that constants were fitted to."""
    others = [one for one in judgements if one.case.shape != FITTED]
    for words, some in (("sets of groups", judgements), (f"of them not on {FITTED}", others)):
        if not some:
            continue
        gains = [one.gain for one in some]
        tops = ", ".join(f"top-{k} {_percent(one.tops[k] for one in some)}" for k in TOPS)
        yield (
            f"- {len(some)} {words}: {tops} (the very fastest first: {_percent(one.is_best for one in some)}); regret of the first choice"
            f" {100 * statistics.median(one.regret for one in some):.1f} % at the median, {100 * max(one.regret for one in some):.0f} % at most;"
            f" Spearman {statistics.median(one.spearman for one in some):.3f} (least {min(one.spearman for one in some):.3f});"
            f" error {100 * statistics.median(one.error for one in some):.1f} %."
            f" {_percent(gain > IMPROVED for gain in gains)} improved by more than {100 * (IMPROVED - 1):.0f} % over the best of ring and tree,"
            f" on average {statistics.mean(gains):.2f}x, at most {max(gains):.2f}x; the first choice on average"
            f" {statistics.mean(one.gain_of_first for one in some):.2f}x."
        )
    libraries = [one.over_library for one in judgements if not math.isnan(one.over_library)]
    if libraries:
        yield (
            f"- Our library's own choice, which knows hosts and is one plan without waiting between steps, takes"
            f" {statistics.median(libraries):.2f} times as long as the fastest program at the median."
        )
    missing = [one for one in judgements if len(one.case.factors) == 2 and one.num_programs < ALL_OF_TWO]
    if missing:
        yield f"- Not complete: {', '.join(f'{one.case.shape} {one.num_programs}' for one in missing)} programs."


def _percent(answers: Iterable[bool]) -> str:
    return f"{100 * statistics.mean(answers):.0f} %"


def placements(measured: Mapping[str, Results]) -> Iterator[str]:
    """How much the placement alone changes the time of a ring over the same axes."""
    for shape in SHAPES:
        rings: dict[tuple[str, tuple[int, ...]], list[float]] = {}
        for case in cases(shape):
            if case.key in measured:
                rings.setdefault((case.axes, case.rows), []).append(measured[case.key].median(FLAT))
        spreads = {key: max(times) / min(times) for key, times in rings.items()}
        if spreads:
            (axes, rows), most = max(spreads.items(), key=lambda one: one[1])
            names = [axis.name for axis in parse_axes(axes)]
            over = " and ".join(names[row] for row in rows)
            yield f"- {shape}: the placement changes a ring's time by up to {most:.0f}x ({axes}, over {over})."


def main() -> int:
    """Run what is missing, and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where results are, and go")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--quick", action="store_true", help="one reduction of each shape, and few programs")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    parser.add_argument("--page", type=Path, help="write what is printed to this file, as Markdown")
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
    page = report(options.out)
    print(page, end="")
    if options.page is not None:
        options.page.write_text(f"{HEAD}{page}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"p2_lab: {error}")
