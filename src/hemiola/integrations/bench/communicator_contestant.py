"""The contestant Communicator: Hemiola's own face, on NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial

from hemiola.integrations.bench.contestant import Task
from hemiola.integrations.bench.serve import serve
from hemiola.ir.formats import read_plan
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.checking.trial import Buffers
from hemiola.runtime.communicator.communicator import Communicator


class CommunicatorContestant:
    """A communicator that takes its plans from the library, or runs the one that it is given."""

    def __init__(self, rank: int | None, num_ranks: int | None, store: Store | None, timeout: float) -> None:
        self._world = Communicator(rank, num_ranks, store=store, timeout=timeout)

    def prepare(self, task: Task, buffers: Buffers) -> Callable[[], object]:
        """The call of the same name, or the run of a plan."""
        (given, taken), world = task.trial().hand_over(buffers), self._world
        if task.plan is not None:
            plan = read_plan(task.plan)
            return partial(world.run, plan, given, taken)
        calls: Mapping[str, Callable[[], object]] = {
            "allreduce": partial(world.all_reduce, taken),
            "broadcast": partial(world.broadcast, taken),
            "allgather": partial(world.all_gather, given, taken),
            "reducescatter": partial(world.reduce_scatter, given, taken),
            "alltoall": partial(world.all_to_all, given, taken),
        }
        return calls[task.kind]

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._world.barrier()

    def close(self) -> None:
        """Leave the others."""
        self._world.close()


def serve_communicator(rank: int, store: Store, num_ranks: int, folder: str, timeout: float) -> None:
    """One rank; ``folder`` holds the driver's socket."""
    contestant = CommunicatorContestant(rank, num_ranks, store, timeout)
    serve(os.path.join(folder, "driver"), rank, contestant)
    contestant.close()
