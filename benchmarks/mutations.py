"""Mutants of the sample files and of library plans, judged by the proof and by the slow reference judge.

    python benchmarks/mutations.py [--number 1000] [--json mutations.json]

Prints per kind how many different mutants were made, how many of them the reference judge calls correct and
wrong, how many it judged by exploring every interleaving, how many of those that can run end and hang at the size
and under the runtime that were drawn for each, and how often the proof disagreed on the plan or on the size. Exits
with 1 when it disagreed once, or when there were not enough mutants.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import hand_made
from campaign import Tally, run_campaign
from hemiola.ir.plan import Plan
from hemiola.ir.verify import verify
from hemiola.ir.verify_sizes import verify_sizes
from mutations import KINDS
from subjects import NUM_RANDOM, file_plans, library_plans, random_plans, size_plans

COLUMNS = "{:18} {:>6} {:>8} {:>6} {:>9} {:>6} {:>6} {:>14} {:>8}"


def accepts(plan: Plan, slots: int) -> bool:
    """Whether the proof calls the plan correct."""
    return verify(plan, slots=slots).ok


def hangs_by_proof(plan: Plan, runtime: str, num_bytes: int) -> bool | None:
    """Whether a call of that size hangs under the runtime, by the proof; None where the plan cannot run."""
    sized = verify_sizes(plan, runtime)
    return sized.hangs_at(num_bytes) if sized.windows else None


def measure(number: int) -> dict[str, Tally]:
    """The tally of every kind, printed as it comes."""
    sorts = {"files": file_plans(), "library": library_plans(), "by hand": hand_made.everything()}
    sorts["random"] = random_plans(NUM_RANDOM)
    sorts["depending on sizes"] = size_plans()
    print("plans:", ", ".join(f"{len(plans)} {sort}" for sort, plans in sorts.items()))
    subjects = {name: plan for plans in sorts.values() for name, plan in plans.items()}
    print(
        COLUMNS.format(
            "kind", "made", "correct", "wrong", "explored", "end", "hang", "disagreements", "seconds"
        )
    )
    tallies = {}
    for kind in KINDS:
        start = time.process_time()
        tally = run_campaign(subjects, kind, number, accepts, hangs_by_proof)
        seconds = f"{time.process_time() - start:.1f}"
        numbers = (
            tally.made, tally.correct, tally.wrong, tally.explored, tally.ended, tally.hanging, len(tally.disagreements),
        )  # fmt: skip
        print(COLUMNS.format(kind, *numbers, seconds), flush=True)
        tallies[kind] = tally
    return tallies


def main() -> int:
    """Run the campaign; 0 when the two judges agree on every mutant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--number", type=int, default=1000, help="mutants of each kind")
    parser.add_argument("--json", type=Path, help="write the tallies to this file")
    options = parser.parse_args()
    tallies = measure(options.number)
    for line in (line for tally in tallies.values() for line in tally.disagreements):
        print(f"disagreement: {line}")
    if options.json:
        options.json.write_text(
            json.dumps({kind: asdict(tally) for kind, tally in tallies.items()}, indent=2) + "\n"
        )
    enough = all(tally.made >= options.number for tally in tallies.values())
    return 0 if enough and not any(tally.disagreements for tally in tallies.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
