"""Campaigns: many plans on random data, one after another on the same ranks, every element checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product

from hemiola.algorithms.library import ALGORITHMS, build
from hemiola.collectives import FACTS
from hemiola.compiler.compile import compile_program
from hemiola.ir.plan import Plan
from hemiola.ir.verify import verify
from hemiola.runtime.checking.check import expect
from hemiola.runtime.checking.trial import Trial, fit_share
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.communicator.numbers import NUMBERS, OPERATORS
from hemiola.runtime.launch import RankKind
from runtime.worlds import on_ranks

SIZES: Mapping[str, tuple[int, int]] = {
    "0": (0, 0),
    "1": (0, 1),
    "7": (0, 7),
    "4 KiB": (4 << 10, 0),
    "1 MiB + 3": (1 << 20, 3),
    "64 MiB": (64 << 20, 0),
}
"""The largest input of a rank: bytes, and elements beyond them."""

NUMERIC = tuple(product(NUMBERS, OPERATORS))
"""Every element type with every operator."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run: an algorithm with its parameters, and the data."""

    algorithm: str
    parameters: tuple[tuple[str, str], ...]
    size: str
    element: str
    op: str

    @property
    def in_place(self) -> bool:
        """Whether input and output are the same memory."""
        return ("in-place", "true") in self.parameters

    @property
    def sums(self) -> bool:
        """Whether the operator matters."""
        return FACTS[ALGORITHMS[self.algorithm].kind].sums

    def __str__(self) -> str:
        words = [self.algorithm, *(f"{key}={value}" for key, value in self.parameters)]
        return f"{' '.join(words)}: {self.size}, {self.element} {self.op}"

    def job(self) -> Job:
        """The same with its plan and trial."""
        plan = compile_program(build(self.algorithm, dict(self.parameters))).plan
        num_bytes, more = SIZES[self.size]
        elements = num_bytes // NUMBERS[self.element].storage.itemsize + more
        trial = Trial(plan.collective, fit_share(plan.collective, elements), self.element, self.op)
        return Job(str(self), plan, trial)


@dataclass(frozen=True, slots=True)
class Job:
    """A plan, its data, and a name for messages."""

    name: str
    plan: Plan
    trial: Trial


def run_jobs(num_ranks: int, kind: RankKind, jobs: Sequence[Job]) -> None:
    """Run the jobs on one group of ranks, and raise for the first wrong element of any."""
    found = on_ranks(num_ranks, do_jobs, tuple(jobs), kind=kind)
    wrong = [sentence for rank in found for sentence in rank]
    assert not wrong, "\n".join(wrong[:10])


def do_jobs(world: Communicator, jobs: Sequence[Job]) -> list[str]:
    """What one rank finds wrong."""
    return [f"{job.name}: {wrong}" for job in jobs for wrong in _do_job(world, job)]


def _do_job(world: Communicator, job: Job) -> Iterator[object]:
    buffers, expectation = job.trial.make_buffers(world.rank), expect(job.trial, world.rank)
    job.trial.fill(world.rank, buffers)
    world.run(job.plan, *job.trial.hand_over(buffers), op=job.trial.op)
    wrong = [expectation.check_output(buffers.output)]
    if _keeps_input(job.plan):
        wrong.append(expectation.check_input(buffers.input))
    yield from (one for one in wrong if one is not None)


def _keeps_input(plan: Plan) -> bool:
    return not plan.collective.in_place and verify(plan, slots=plan.protocol.slots).preserves_input


def cases(num_ranks: int, sizes: Sequence[str], first: int = 0) -> Iterator[Case]:
    """Every algorithm with every one of ``sizes``; types, operators, roots, places and instances take turns.

    The turns have lengths without a common factor, so that every pair of choices comes together in the long
    run; ``first`` begins elsewhere in them.
    """
    turns = count(first)
    for size, (name, algorithm) in product(sizes, ALGORITHMS.items()):
        turn = next(turns)
        element, op = NUMERIC[turn * 7 % len(NUMERIC)]
        parameters = {"ranks": str(num_ranks)}
        if "levels" in algorithm.parameters:
            parameters["levels"] = _levels(num_ranks, turn)
        if "root" in algorithm.parameters:
            parameters["root"] = str(turn * 5 % num_ranks)
        if "source" in algorithm.parameters:
            parameters |= {"source": str(turn % num_ranks), "destination": str((turn + 1) % num_ranks)}
        if FACTS[algorithm.kind].can_be_in_place and turn // len(ALGORITHMS) % 2:
            parameters["in-place"] = "true"
        if turn % 3 == 0:
            parameters["instances"] = "2"
        yield Case(name, tuple(parameters.items()), size, element, op)


def _levels(num_ranks: int, turn: int) -> str:
    """A way to write the number of ranks as a product of two."""
    ways = [one for one in range(1, num_ranks + 1) if num_ranks % one == 0]
    outer = ways[turn % len(ways)]
    return f"{outer},{num_ranks // outer}"
