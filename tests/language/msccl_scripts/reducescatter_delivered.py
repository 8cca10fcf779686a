# ruff: noqa: F403, F405
# mypy: ignore-errors
"""In place, a copy to Buffer.output of a rank goes to that rank's own share."""

from msccl.language import *
from msccl.language.collectives import ReduceScatter
from msccl.topologies import fully_connected

size = 4
with MSCCLProgram("deliver", fully_connected(size), ReduceScatter(size, 1, True), 1):
    for owner in range(size):
        worker = (owner + 1) % size
        c = chunk(worker, Buffer.input, owner)
        for other in range(size):
            if other != worker:
                c.reduce(chunk(other, Buffer.input, owner))
        c.copy(owner, Buffer.output, 0)
    XML()
    Check()
