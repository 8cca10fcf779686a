"""Backend: what the bench asks of a library that it measures, on one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from hemiola.collectives import Collective, CollectiveKind
from hemiola.runtime.checking.trial import Buffers, Trial, fit_share

IN_PLACE: Mapping[CollectiveKind, bool] = {
    CollectiveKind.ALLREDUCE: True,
    CollectiveKind.BROADCAST: True,
    CollectiveKind.ALLGATHER: False,
    CollectiveKind.REDUCESCATTER: False,
    CollectiveKind.ALLTOALL: False,
}
"""The collectives that are measured, and whether each runs in place: the form in which programs mostly call it."""

MPI_LACKS = ("float16", "bfloat16")
"""Element types that the MPI standard does not have."""


@dataclass(frozen=True, slots=True)
class Task:
    """One collective of one size, which a backend is asked to run."""

    kind: CollectiveKind
    """A key of ``IN_PLACE``, or with a plan any other collective, out of place."""
    num_ranks: int
    num_bytes: int
    """The bytes of the collective (`collectives.kinds`)."""
    element: str
    """A key of ``NUMBERS``."""
    plan: str | None = None
    """The file of a plan to run, for the backend that can run plans; None lets the library choose its algorithm."""

    def trial(self) -> Trial:
        """The same collective on random data, with the results that are expected."""
        collective = Collective(self.kind, self.num_ranks, in_place=IN_PLACE.get(self.kind, False))
        trial = Trial(collective, 0, self.element)
        elements = self.num_bytes // trial.number.storage.itemsize
        return Trial(collective, fit_share(collective, elements), self.element)


class Backend(Protocol):
    """A library that is measured; every rank has one object of this."""

    def prepare(self, task: Task, buffers: Buffers) -> Callable[[], object]:
        """A function that does the task on these buffers once, and returns when this rank is done."""
        ...

    def barrier(self) -> None:
        """Wait for all ranks."""
        ...

    def close(self) -> None:
        """Leave the group of ranks."""
        ...
