"""How good tuned plans are: their time over the bound, and whether any other plan of ours is faster.

    python benchmarks/tuning.py [--systems dgx-a100:2,mi300x] [--collectives allreduce] [--sizes 64KiB,64MiB] [--json tuning.json]

Every preset (two hosts of it, where it has hosts of up to 16 devices) x all-reduce, all-gather, reduce-scatter and all-to-all x four
sizes. Each tuned plan is compared with what synthesize finds, with every algorithm of the library in every form that
fits, and with what the runtime takes by itself; all times are replayed, so they are the same on every machine but for how
long the search takes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.errors import HemiolaError
from hemiola.report.machine import describe_machine
from hemiola.synthesis.state import REDUCTIONS
from hemiola.synthesis.synthesize import synthesize
from hemiola.topology.presets import load_system, preset_names
from hemiola.topology.system import System
from hemiola.tuning.candidate_space import CandidateSpace
from hemiola.tuning.plan_search import PlanSearch
from hemiola.tuning.tune import TIE, tune
from hemiola.units import format_bytes, format_seconds, parse_bytes

COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall")
SIZES = ("64KiB", "1MiB", "64MiB", "1GiB")
MOST_PER_HOST = 16
NEAR = 1.1


@dataclass(frozen=True)
class Row:
    """One collective of one size on one system; seconds."""

    system: str
    num_ranks: int
    collective: str
    num_bytes: int
    tuned: float
    synthesized: float | None
    library: float
    default: float
    bound: float
    plan: str

    @property
    def over_bound(self) -> float:
        """How many times the bound the tuned plan takes."""
        return self.tuned / self.bound

    @property
    def best_other(self) -> float:
        """The fastest of what the tuned plan is compared with."""
        return min(self.library, self.default, self.synthesized or math.inf)

    @property
    def is_beaten(self) -> bool:
        """Whether something else is faster by more than a tie."""
        return self.best_other < self.tuned * (1 - 2 * TIE)


def systems() -> Iterator[str]:
    """Two hosts of every preset whose hosts are not large; otherwise one."""
    for name in preset_names():
        one = load_system(name)
        hosts = one.host_depth > 0 and one.num_ranks <= MOST_PER_HOST
        yield f"{name}:2" if hosts else name


def measure(system: System, kind: CollectiveKind, sizes: Sequence[int]) -> tuple[list[Row], float]:
    """The rows of a collective, and how many CPU seconds the tuning took."""
    request = CollectiveRequest.of_system(kind, system)
    begin = time.process_time()
    tuning = tune(request, sizes)
    seconds = time.process_time() - begin
    search = PlanSearch(CandidateSpace(request))
    rows = []
    for found in tuning.sizes:
        synthesized = None
        if kind in REDUCTIONS:
            synthesized = synthesize(request, found.num_bytes).programs[0].seconds
        rows.append(
            Row(
                system.name,
                system.num_ranks,
                kind.value,
                found.num_bytes,
                found.chosen.seconds,
                synthesized,
                best_of_library(search, found.num_bytes),
                found.default.seconds,
                found.bound.seconds,
                found.chosen.name,
            )
        )
    return rows, seconds


def best_of_library(search: PlanSearch, num_bytes: int) -> float:
    """The fastest algorithm of the library, with every protocol, replayed as it is printed."""
    library = [one for one in search.space.candidates if one.program is None]
    every = [one.with_(protocol=protocol) for one in library for protocol in search.space.protocols]
    ranked = sorted(every, key=lambda one: search.seconds(one, num_bytes))
    return min(search.replayed(one, num_bytes).seconds for one in ranked[:5])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--systems", default="")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    names = given.systems.split(",") if given.systems else list(systems())
    sizes = sorted(parse_bytes(size) for size in given.sizes.split(","))
    print(describe_machine())
    rows: list[Row] = []
    print(f"{'system':16} {'collective':14} CPU s   time / bound at {', '.join(map(format_bytes, sizes))}")
    for name in names:
        for collective in given.collectives.split(","):
            try:
                found, seconds = measure(load_system(name), CollectiveKind(collective), sizes)
            except HemiolaError as error:
                print(f"{name}: {collective}: {error}", file=sys.stderr)
                return 2
            rows += found
            cells = "  ".join(f"{row.over_bound:5.2f}{'!' if row.is_beaten else ' '}" for row in found)
            print(f"{name:16} {collective:14} {seconds:5.1f}   {cells}", flush=True)
    near = sum(row.over_bound <= NEAR for row in rows)
    beaten = [row for row in rows if row.is_beaten]
    print(f"\n{near} of {len(rows)} ({100 * near / len(rows):.0f} %) within 10 % of the bound.")
    print(f"{len(beaten)} of {len(rows)} tuned plans are slower than another plan of ours.")
    for row in beaten:
        print(
            f"  {row.system} {row.collective} {format_bytes(row.num_bytes)}: tuned {format_seconds(row.tuned)},"
            f" other {format_seconds(row.best_other)}"
        )
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"machine": describe_machine(), "rows": [asdict(row) for row in rows]}, file, indent=1)
    return 1 if beaten else 0


if __name__ == "__main__":
    sys.exit(main())
