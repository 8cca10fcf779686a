# ruff: noqa: F403, F405
# mypy: ignore-errors
"""The two published routines: rings of a part of the ranks, then an exchange between the parts."""

from msccl.language import *
from msccl.language.collectives import *
from msccl.language.routines import *
from msccl.topologies import *

size = 8
with MSCCLProgram("allreduce_rings", fully_connected(size), AllReduce(size, size, True), 1):
    for node in (0, 4):
        allreduce_ring_inplace(4, node, 0)
        allreduce_ring_inplace(4, node, 4, ch=1)
    for r in range(size):
        peer, index = (r + 4) % size, 0 if r < 4 else 4
        c = chunk(peer, Buffer.output, index, 4)
        c.reduce(chunk(r, Buffer.output, index, 4))
        c = c.copy(r, Buffer.output, index)
    XML()
    assert Check()

with MSCCLProgram("allgather_ring", fully_connected(size), AllGather(size, 1, True), 1):
    allgather_ring_inplace(size)
    XML()
    assert Check()
