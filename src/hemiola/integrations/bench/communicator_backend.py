"""CommunicatorBackend: Hemiola's Communicator, called with NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial

from hemiola.integrations.bench.backend import Task
from hemiola.integrations.bench.serve import serve
from hemiola.ir.formats import read_plan
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.checking.trial import Buffers
from hemiola.runtime.communicator.communicator import Communicator


class CommunicatorBackend:
    """A communicator that chooses plans from the library, or runs the plan of the task."""

    def __init__(self, rank: int | None, num_ranks: int | None, store: Store | None, timeout: float) -> None:
        self._world = Communicator(rank, num_ranks, store=store, timeout=timeout)

    def prepare(self, task: Task, buffers: Buffers) -> Callable[[], object]:
        """The method of the communicator for the task's collective, or the run of the task's plan."""
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
        """Leave the group of ranks."""
        self._world.close()


def serve_communicator(rank: int, store: Store, num_ranks: int, folder: str, timeout: float) -> None:
    """The body of one rank's process; ``folder`` holds the driver's socket."""
    backend = CommunicatorBackend(rank, num_ranks, store, timeout)
    serve(os.path.join(folder, "driver"), rank, backend)
    backend.close()
