"""A rank of a contestant inside of a lab: ``python -m hemiola.lab.contest NAME FOLDER TIMEOUT``, with RANK and WORLD_SIZE.

NAME is ``communicator``, ``gloo``, or ``groups:K``: K communicators with every K-th rank each, which all work at once.
"""

from __future__ import annotations

import os
import sys

from hemiola.integrations.bench.communicator_contestant import CommunicatorContestant
from hemiola.integrations.bench.contestant import Contestant
from hemiola.integrations.bench.serve import serve
from hemiola.runtime.bootstrap.environment import read_environment
from hemiola.runtime.bootstrap.rendezvous import rendezvous_store
from hemiola.runtime.bootstrap.store import PrefixedStore, Store
from hemiola.runtime.communicator.communicator import Communicator


class GroupContestant(CommunicatorContestant):
    """One of several groups: collectives are the group's, barriers are everybody's."""

    def __init__(self, rank: int, num_ranks: int, num_groups: int, store: Store, timeout: float) -> None:
        self._all = Communicator(rank, num_ranks, store=store, timeout=timeout, name="all")
        group, self.place = rank % num_groups, rank // num_groups
        own = PrefixedStore(store, f"group {group}/")
        super().__init__(self.place, num_ranks // num_groups, own, timeout)

    def barrier(self) -> None:
        """Wait for all ranks of all groups."""
        self._all.barrier()

    def close(self) -> None:
        """Leave the others."""
        super().close()
        self._all.close()


def main(name: str, folder: str, timeout: float) -> None:
    """Meet the others and obey the driver."""
    environment = read_environment()
    rank, num_ranks, place = environment.rank, environment.world_size, None
    contestant: Contestant
    if name == "gloo":
        from hemiola.integrations.bench.torch_contestant import TorchContestant

        contestant = TorchContestant(name, rank, num_ranks, os.path.join(folder, "meeting"), timeout)
    elif name.startswith("groups:"):
        store = rendezvous_store(environment, None)
        contestant = GroupContestant(rank, num_ranks, int(name.partition(":")[2]), store, timeout)
        place = contestant.place
    else:
        contestant = CommunicatorContestant(None, None, None, timeout)
    serve(os.path.join(folder, "driver"), rank, contestant, place=place)
    contestant.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
