"""One rank of a backend inside a lab: ``python -m hemiola.lab.run_backend NAME FOLDER TIMEOUT``, with RANK and WORLD_SIZE set.

NAME is ``communicator``, ``gloo``, or ``groups:K``: K communicators with every K-th rank each, which all run at once.
"""

from __future__ import annotations

import os
import sys

from hemiola.integrations.bench.backend import Backend
from hemiola.integrations.bench.communicator_backend import CommunicatorBackend
from hemiola.integrations.bench.serve import serve
from hemiola.runtime.bootstrap.environment import read_environment
from hemiola.runtime.bootstrap.rendezvous import rendezvous_store
from hemiola.runtime.bootstrap.store import PrefixedStore, Store
from hemiola.runtime.communicator.communicator import Communicator


class GroupBackend(CommunicatorBackend):
    """A communicator of one of several groups: collectives run within the group, barriers over all ranks."""

    def __init__(self, rank: int, num_ranks: int, num_groups: int, store: Store, timeout: float) -> None:
        self._all = Communicator(rank, num_ranks, store=store, timeout=timeout, name="all")
        group, self.place = rank % num_groups, rank // num_groups
        own = PrefixedStore(store, f"group {group}/")
        super().__init__(self.place, num_ranks // num_groups, own, timeout)

    def barrier(self) -> None:
        """Wait for all ranks of all groups."""
        self._all.barrier()

    def close(self) -> None:
        """Leave the group, and the communicator of all ranks."""
        super().close()
        self._all.close()


def main(name: str, folder: str, timeout: float) -> None:
    """Connect to the other ranks, and obey the driver until it closes the connection."""
    environment = read_environment()
    rank, num_ranks, place = environment.rank, environment.world_size, None
    backend: Backend
    if name == "gloo":
        from hemiola.integrations.bench.torch_backend import TorchBackend

        backend = TorchBackend(name, rank, num_ranks, os.path.join(folder, "rendezvous"), timeout)
    elif name.startswith("groups:"):
        store = rendezvous_store(environment, None)
        backend = GroupBackend(rank, num_ranks, int(name.partition(":")[2]), store, timeout)
        place = backend.place
    else:
        backend = CommunicatorBackend(None, None, None, timeout)
    serve(os.path.join(folder, "driver"), rank, backend, place=place)
    backend.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
