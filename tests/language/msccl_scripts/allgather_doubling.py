# ruff: noqa: F403, F405
# mypy: ignore-errors
"""Recursive doubling over the outputs, out of place and in place; only the second is asked for."""

from msccl.language import *
from msccl.language.collectives import AllGather
from msccl.topologies import amd4, amd8


def doubling(topology, inplace):
    size = topology.num_nodes()
    program = MSCCLProgram("doubling", topology, AllGather(size, 1, inplace), 1)
    with program:
        if not inplace:
            for r in range(size):
                chunk(r, Buffer.input, 0).copy(r, Buffer.output, r)
        count = 1
        while count < size:
            for r in range(size):
                index = r // count * count
                chunk(r, Buffer.output, index, size=count).copy(r ^ count, Buffer.output, index)
            count *= 2
        assert Check()
        if inplace:
            XML()


doubling(amd4(), False)
doubling(amd8(), True)
