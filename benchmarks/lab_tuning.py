"""Tuned all-reduces against the flat ring and the runtime's own choice, measured on every shape of the lab.

    python benchmarks/lab_tuning.py [--shapes 2x4,wan-2x1] [--sizes 64KiB,1MiB,8MiB] [--rounds 7] [--json lab_tuning.json]

What our runtime costs beside the wire is fitted to four all-reduces on the shape 2x4 (five constants); with these, tune chooses a plan for
every shape and size, which is then run there in turns with the ring and with what the communicator chooses by itself. Needs to
be root, for network namespaces.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.ir.plan import Plan
from hemiola.lab.library_plan import plan_of, rings
from hemiola.lab.session import OWN_CHOICE, Session, open_session
from hemiola.report.machine import describe_machine
from hemiola.simulator.calibrate.fit_runtime import Observation, RuntimeConstants, fit_runtime
from hemiola.simulator.timeline import Load
from hemiola.topology.shapes import shape_names
from hemiola.tuning.tune import tune
from hemiola.units import format_bytes, parse_bytes

FITTED_SHAPE, FITTED_LEVELS = "2x4", (2, 4)
FITTED_SIZES = (64 << 10, 1 << 20, 4 << 20)
RING, TUNED = "ring", "tuned"
SAME = 0.05
"""Measured times that differ by less are equal: the spread of a row is mostly larger."""


@dataclass(frozen=True)
class Row:
    """One size on one shape; seconds of the median round."""

    shape: str
    num_bytes: int
    ring: float
    own_choice: float
    tuned: float
    predicted: float
    spread: float
    plan: str

    @property
    def gain(self) -> float:
        """How many times as fast as the ring the tuned plan is."""
        return self.ring / self.tuned

    @property
    def is_slower(self) -> bool:
        """Whether the ring is faster beyond what the rounds differ by."""
        return self.gain < 1 - max(SAME, self.spread)


def fitted(rounds: int) -> RuntimeConstants:
    """The constants of our runtime, from one shape."""
    plans = {
        "ring": plan_of("allreduce_ring", 8),
        "hierarchical": plan_of("allreduce_hierarchical", 8, **rings(FITTED_LEVELS)),
        "halving": plan_of("allreduce_halving_doubling", 8),
        "double tree": plan_of("allreduce_double_binary_tree", 8),
    }
    seen = []
    with open_session(FITTED_SHAPE) as session:
        for size in FITTED_SIZES:
            for measured in session.measure(CollectiveKind.ALLREDUCE, size, plans, rounds):
                loads = (Load(plans[measured.label], size),)
                seen.append(Observation(session.lab.system, loads, measured.seconds))
    return fit_runtime(seen)


def measure(session: Session, shape: str, size: int, constants: RuntimeConstants, rounds: int) -> Row:
    """Tune with the constants, and measure."""
    system = session.lab.system
    request = CollectiveRequest.of_system(CollectiveKind.ALLREDUCE, constants.apply(system))
    found = tune(request, [size]).sizes[0].chosen
    plans: dict[str, Plan] = {RING: plan_of("allreduce_ring", system.num_ranks), TUNED: found.plan}
    times = {
        one.label: one
        for one in session.measure(CollectiveKind.ALLREDUCE, size, plans, rounds, own_choice=True)
    }
    return Row(
        shape, size, times[RING].seconds, times[OWN_CHOICE].seconds, times[TUNED].seconds,
        constants.call_seconds + found.seconds, max(times[RING].spread, times[TUNED].spread), found.name,
    )  # fmt: skip


def show(row: Row) -> str:
    """A row for people."""
    note = "  SLOWER" if row.is_slower else ""
    return (
        f"{row.shape:12} {format_bytes(row.num_bytes):>7}  ring {1e3 * row.ring:8.2f}  own choice {1e3 * row.own_choice:8.2f}"
        f"  tuned {1e3 * row.tuned:8.2f} (predicted {1e3 * row.predicted:8.2f})  {row.gain:5.2f}x  ±{100 * row.spread:.0f} %{note}"
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shapes", default=",".join(shape_names()))
    parser.add_argument("--sizes", default="64KiB,1MiB,8MiB")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args(words)
    print(describe_machine())
    constants = fitted(given.rounds)
    print(f"fitted to {FITTED_SHAPE}: {constants}\nmilliseconds, medians of {given.rounds} rounds in turns")
    rows: list[Row] = []
    for shape in given.shapes.split(","):
        with open_session(shape) as session:
            for size in map(parse_bytes, given.sizes.split(",")):
                rows.append(measure(session, shape, size, constants, given.rounds))
                print(show(rows[-1]), flush=True)
    slower = sum(row.is_slower for row in rows)
    print(f"\n{slower} of {len(rows)} tuned plans are slower than the ring beyond the spread.")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"machine": describe_machine(), "rows": [asdict(row) for row in rows]}, file, indent=1)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
