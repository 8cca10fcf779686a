# ruff: noqa: F403, F405
# mypy: ignore-errors
"""A chain that sums into a scratch buffer and spreads the sum to every output; the input stays as it is."""

from msccl.language import *
from msccl.language.collectives import *
from msccl.topologies import line

size = 4
with MSCCLProgram("chain", line(size), AllReduce(size, 2, False), 1, "Simple"):
    for r in range(size):
        create_scratch(r, "sum")
    for index in range(2):
        c = chunk(0, Buffer.input, index).copy(0, "sum", index)
        for r in range(1, size):
            c = c.copy(r, "sum", index).reduce(chunk(r, Buffer.input, index))
        for r in range(size - 1, -1, -1):
            c = c.copy(r, Buffer.output, index)
    Check()
    XML()
