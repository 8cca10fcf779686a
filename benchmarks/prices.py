"""How long prices take to fill, and how far they are from replays: all presets with 64 devices, and the library's algorithms.

    python benchmarks/prices.py [--systems dgx-a100:8] [--collectives allreduce] [--judged 8] [--no-library] [--json prices.json]

Every preset of about 64 devices x all-reduce, all-gather, reduce-scatter and all-to-all has the plans that tune finds for
five sizes; they are found and compiled before the clock starts. Every algorithm of the library for 64 ranks is priced for
all sizes on two systems. Fills are CPU seconds without the disk, the median of three. Errors are those of random sizes
from 4 KiB to 1 GiB, multiples of chunks x element size, against `replay_seconds`; no fill saw these sizes but by chance.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from hemiola.algorithms.library import ALGORITHMS
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.cost.price import Price, PricedPlan, fill_price
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.errors import HemiolaError
from hemiola.report.machine import describe_machine
from hemiola.topology.presets import load_system, preset_names
from hemiola.tuning.tune import tune
from hemiola.units import LARGEST

COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall")
SIZES = (1 << 14, 1 << 18, 1 << 22, 1 << 26, 1 << 30)
NUM_DEVICES = 64
LIBRARY_SYSTEMS = ("dgx-a100:8", "mi300x:8")
REPEAT = 3
LIMIT_SECONDS, LIMIT_ERROR = 0.3, 0.02


@dataclass(frozen=True)
class Row:
    """One price."""

    system: str
    what: str
    seconds: float
    """CPU seconds of a fill."""
    num_plans: int
    num_entries: int
    num_judged: int
    error: float
    """The largest one."""


@dataclass(frozen=True)
class Subject:
    """A request with its plans."""

    what: str
    request: CollectiveRequest
    plans: Sequence[PricedPlan]


def systems() -> Iterator[str]:
    """As many hosts of every preset as have 64 devices, or one where that has more."""
    for name in preset_names():
        number = NUM_DEVICES // load_system(name).num_ranks
        yield f"{name}:{number}" if number > 1 else name


def tuned(name: str, kind: str) -> Subject:
    """The plans that tune finds."""
    found = tune(CollectiveRequest.of_system(CollectiveKind(kind), load_system(name)), SIZES)
    ends = [*(window.max_bytes for window in found.windows[:-1]), LARGEST]
    plans = [PricedPlan(one.chosen.plan, end) for one, end in zip(found.windows, ends, strict=True)]
    return Subject(f"{kind}, tuned", found.request, plans)


def library(name: str) -> Iterator[Subject]:
    """Every algorithm, and of those with levels every pair of exchanges."""
    system = load_system(name)
    exchanges = ("ring", "allpairs", "halving")
    pairs = [{"inside": inside, "across": across} for inside in exchanges for across in exchanges]
    for algorithm in ALGORITHMS.values():
        levels = {"levels": (8, 8)} if "levels" in algorithm.parameters else {}
        for chosen in pairs if "inside" in algorithm.parameters else [{}]:
            plan = compile_program(algorithm.build(ranks=NUM_DEVICES, **levels, **chosen)).plan
            request = CollectiveRequest.of_system(algorithm.kind, system, peer=plan.collective.peer)
            yield Subject(" ".join([algorithm.name, *chosen.values()]), request, [PricedPlan(plan)])


def error_at(subject: Subject, price: Price, wanted: float) -> float | None:
    """How far a price is off at the multiple below a size; None where that belongs to another plan."""
    at = next(number for number, one in enumerate(subject.plans) if wanted <= one.max_bytes)
    unit = price.windows[at].unit_bytes
    size = max(1, int(wanted // unit)) * unit
    if size > subject.plans[at].max_bytes or (at and size <= subject.plans[at - 1].max_bytes):
        return None
    return abs(price(size) / replay_seconds(subject.plans[at].plan, size, subject.request) - 1)


def measure(subject: Subject, num_judged: int) -> Row:
    """Fill three times, and judge."""
    times = []
    for _ in range(REPEAT):
        begin = time.process_time()
        price = fill_price(subject.request, subject.plans)
        times.append(time.process_time() - begin)
    name = subject.request.system.name
    seed = random.Random(f"{name} {subject.what}")
    found = (error_at(subject, price, 2 ** seed.uniform(12, 30)) for _ in range(num_judged))
    errors = [error for error in found if error is not None]
    entries = sum(len(window.sizes) for window in price.windows)
    worst = max(errors, default=0.0)
    return Row(name, subject.what, statistics.median(times), len(subject.plans), entries, len(errors), worst)


def show(row: Row) -> None:
    late = "!" if row.seconds > LIMIT_SECONDS else " "
    far = "!" if row.error > LIMIT_ERROR else " "
    print(
        f"{row.system:14} {row.what:48} {row.seconds:6.3f}{late} {row.num_entries:6} {100 * row.error:6.2f}{far}",
        flush=True,
    )


def main() -> int:
    """Measure every row, and say which are worst."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--systems", default="")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--judged", type=int, default=8)
    parser.add_argument("--no-library", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    names = given.systems.split(",") if given.systems else list(systems())
    print(describe_machine())
    print(f"{'system':14} {'plans':48} {'CPU s':>7} {'entries':>7} {'error %':>7}")
    rows: list[Row] = []
    for name in names:
        for kind in given.collectives.split(","):
            try:
                rows.append(measure(tuned(name, kind), given.judged))
            except HemiolaError as error:
                print(f"{name}: {kind}: {error}", file=sys.stderr)
                continue
            show(rows[-1])
    for name in () if given.no_library else LIBRARY_SYSTEMS:
        for subject in library(name):
            rows.append(measure(subject, given.judged))
            show(rows[-1])
    late = sum(row.seconds > LIMIT_SECONDS for row in rows)
    far = sum(row.error > LIMIT_ERROR for row in rows)
    worst = max(rows, key=lambda row: row.seconds)
    print(f"\nSlowest: {worst.seconds:.2f} s, {worst.system} {worst.what}.")
    print(
        f"{late} of {len(rows)} take more than {LIMIT_SECONDS} s; {far} are more than {LIMIT_ERROR:.0%} off somewhere."
    )
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"machine": describe_machine(), "rows": [asdict(row) for row in rows]}, file, indent=1)
    return 1 if late or far else 0


if __name__ == "__main__":
    sys.exit(main())
