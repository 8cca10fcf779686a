# ruff: noqa: F403, F405
# mypy: ignore-errors
"""In place the owner's output is its share of the input; out of place it is a buffer of its own."""

from msccl.language import *
from msccl.language.collectives import ReduceScatter
from msccl.topologies import fully_connected

size, factor = 3, 2
for inplace in (True, False):
    collective = ReduceScatter(size, factor, inplace)
    with MSCCLProgram(f"scatter_{inplace}", fully_connected(size), collective, 2):
        for owner in range(size):
            first = (owner + 1) % size
            c = chunk(first, Buffer.input, owner * factor, factor)
            for hop in range(2, size):
                c = chunk((owner + hop) % size, Buffer.input, owner * factor, factor).reduce(c)
            if inplace:
                chunk(owner, Buffer.output, 0, factor).reduce(c)
            else:
                total = c.copy(owner, Buffer.output, 0)
                total.reduce(chunk(owner, Buffer.input, owner * factor, factor))
        XML()
        Check()
