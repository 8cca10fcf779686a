"""A rank of a contestant inside of a lab: ``python -m hemiola.lab.contest NAME FOLDER TIMEOUT``, with RANK and WORLD_SIZE."""

from __future__ import annotations

import os
import sys

from hemiola.integrations.bench.contestant import Contestant
from hemiola.integrations.bench.serve import serve
from hemiola.runtime.environment import read_environment


def main(name: str, folder: str, timeout: float) -> None:
    """Meet the others and obey the driver."""
    environment = read_environment()
    contestant: Contestant
    if name == "gloo":
        from hemiola.integrations.bench.torch_contestant import TorchContestant

        meeting = os.path.join(folder, "meeting")
        contestant = TorchContestant(name, environment.rank, environment.world_size, meeting, timeout)
    else:
        from hemiola.integrations.bench.communicator_contestant import CommunicatorContestant

        contestant = CommunicatorContestant(None, None, None, timeout)
    serve(os.path.join(folder, "driver"), environment.rank, contestant)
    contestant.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
