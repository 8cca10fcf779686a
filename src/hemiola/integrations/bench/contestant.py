"""Contestant: one library on one rank, as the measurement sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hemiola.collectives import Collective
from hemiola.runtime.checking.trial import Buffers, Trial, fit_share

IN_PLACE = {
    "allreduce": True,
    "broadcast": True,
    "allgather": False,
    "reducescatter": False,
    "alltoall": False,
}
"""The collectives that are measured, and whether input and output are one memory: as each is mostly called."""

MPI_LACKS = ("float16", "bfloat16")
"""Element types that MPI's standard does not have."""


@dataclass(frozen=True, slots=True)
class Task:
    """One collective of one size."""

    kind: str
    """A key of ``IN_PLACE``, or with a plan any other collective, out of place."""
    num_ranks: int
    num_bytes: int
    """The input of a rank."""
    element: str
    """A key of ``NUMBERS``."""
    plan: str | None = None
    """The file of a plan that is to be run, by the contestant who can; otherwise the library's own choice."""

    def trial(self) -> Trial:
        """The same on random data."""
        collective = Collective(self.kind, self.num_ranks, in_place=IN_PLACE.get(self.kind, False))
        trial = Trial(collective, 0, self.element)
        elements = self.num_bytes // trial.number.storage.itemsize
        return Trial(collective, fit_share(collective, elements), self.element)


class Contestant(Protocol):
    """What a library has to offer; one object a rank."""

    def prepare(self, task: Task, buffers: Buffers) -> Callable[[], object]:
        """The call that does the task on these buffers once, and returns when this rank is done."""
        ...

    def barrier(self) -> None:
        """Wait for all ranks."""
        ...

    def close(self) -> None:
        """Leave the others in good order."""
        ...
