"""The contestant Communicator: Hemiola's own face, on NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from hemiola.integrations.bench.contestant import Task
from hemiola.integrations.bench.serve import serve
from hemiola.runtime.communicator import Communicator
from hemiola.runtime.store import Store
from hemiola.runtime.trial import Buffers


class CommunicatorContestant:
    """A communicator that takes its plans from the library."""

    def __init__(self, rank: int, num_ranks: int, store: Store, timeout: float) -> None:
        self._world = Communicator(rank, num_ranks, store=store, timeout=timeout)

    def prepare(self, task: Task, buffers: Buffers) -> Callable[[], None]:
        """The call of the same name."""
        (given, taken), world = task.trial().hand_over(buffers), self._world
        calls: Mapping[str, Callable[[], object]] = {
            "allreduce": lambda: world.all_reduce(taken),
            "broadcast": lambda: world.broadcast(taken),
            "allgather": lambda: world.all_gather(given, taken),
            "reducescatter": lambda: world.reduce_scatter(given, taken),
            "alltoall": lambda: world.all_to_all(given, taken),
        }
        call = calls[task.kind]
        return lambda: (call(), None)[1]

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
