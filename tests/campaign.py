"""Many mutants of many plans, each judged by the proof on trial and by the reference judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random

from hemiola.ir.plan import Plan
from mutations import fingerprint, mutate
from reference import judge
from size_reference import RUNTIMES, chunks_of_call, hangs_at_size

Accepts = Callable[[Plan, int], bool]
"""The proof on trial: whether it accepts a plan at a number of slots."""
HangsByProof = Callable[[Plan, str, int], bool | None]
"""Whether a call of some size hangs under a runtime; None where the plan cannot run, or stops even with endless slots."""

LARGE_STEPS = 2000
RARELY = 3
"""A plan of more than LARGE_STEPS steps has its turn in one round of RARELY, because judging it is slow."""
FRUITLESS_TURNS = 40
"""A plan that gave no mutant not seen before in so many turns has no more turns."""


@dataclass(slots=True)
class Tally:
    """What came of the mutants of one kind; all of them are different."""

    made: int = 0
    correct: int = 0
    """By the reference judge."""
    ended: int = 0
    hanging: int = 0
    """Mutants that can run, and end or hang at the size and under the runtime that were asked about."""
    explored: int = 0
    """Judged by exploring every interleaving."""
    reasons: dict[str, int] = field(default_factory=dict)
    """How many mutants the reference judge refused for each reason; one mutant may have several."""
    disagreements: list[str] = field(default_factory=list)
    """One line each, enough to make the mutant again with ``mutant_of``."""

    @property
    def wrong(self) -> int:
        """How many the reference judge refused."""
        return self.made - self.correct


def mutant_of(plan: Plan, name: str, kind: str, turn: int) -> tuple[Plan | None, int]:
    """The mutant of a named plan in one turn, and the number of slots that it is judged at."""
    random = Random(f"{name}/{kind}/{turn}")
    own = plan.protocol.slots
    slots = random.choice([own, own, own, 2, 2, 1, 1, 0])
    return mutate(plan, kind, random), slots


def size_of(mutant: Plan, name: str, kind: str, turn: int) -> tuple[str, int]:
    """The runtime and the size that a mutant is asked about: chunks of a byte to some MiB, sizes that a runtime takes."""
    random = Random(f"{name}/{kind}/{turn}/size")
    runtime = random.choice(RUNTIMES)
    chunk_bytes = round(2 ** random.uniform(0, 22.5))
    return runtime, chunk_bytes * chunks_of_call(mutant.collective, runtime)


def run_campaign(
    plans: Mapping[str, Plan], kind: str, number: int, accepts: Accepts, hangs_by_proof: HangsByProof
) -> Tally:
    """Judge ``number`` different mutants of one kind, taken from all plans in turn; fewer if there are not more."""
    tally = Tally()
    for name, turn, mutant, slots in _different_mutants(plans, kind):
        if tally.made == number:
            break
        judgement = judge(mutant, slots)
        tally.made += 1
        tally.correct += judgement.ok
        tally.explored += judgement.explored
        for reason in judgement.reasons:
            tally.reasons[reason] = tally.reasons.get(reason, 0) + 1
        if accepts(mutant, slots) != judgement.ok:
            why = ", ".join(sorted(judgement.reasons)) or "correct"
            tally.disagreements.append(
                f"{name} {kind} turn {turn} at {slots} slots: the reference says {why}"
            )
        runtime, num_bytes = size_of(mutant, name, kind, turn)
        hangs = hangs_at_size(mutant, runtime, num_bytes)
        tally.ended += hangs is False
        tally.hanging += hangs is True
        if hangs_by_proof(mutant, runtime, num_bytes) is not hangs:
            tally.disagreements.append(
                f"{name} {kind} turn {turn} under {runtime} at {num_bytes} bytes: the reference says {hangs}"
            )
    return tally


def _different_mutants(plans: Mapping[str, Plan], kind: str) -> Iterator[tuple[str, int, Plan, int]]:
    seen: set[tuple[str, int, tuple[bytes, ...]]] = set()
    fruitless = dict.fromkeys(plans, 0)
    for turn in count():
        names = [name for name in plans if fruitless[name] < FRUITLESS_TURNS]
        if not names:
            return
        for name in names:
            if plans[name].num_steps > LARGE_STEPS and turn % RARELY:
                continue
            mutant, slots = mutant_of(plans[name], name, kind, turn)
            if mutant is None:
                fruitless[name] = FRUITLESS_TURNS
                continue
            key = (name, slots, fingerprint(mutant))
            fruitless[name] = fruitless[name] + 1 if key in seen else 0
            if key not in seen:
                seen.add(key)
                yield name, turn, mutant, slots
