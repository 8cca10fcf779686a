# ruff: noqa: F403, F405
# mypy: ignore-errors
"""Everybody hands its input to the place of that input on all others."""

from msccl.language import *
from msccl.language.collectives import AllGather
from msccl.topologies import fully_connected, reverse_topology, star

size, factor = 4, 2
assert reverse_topology(star(size)).link(0, 3) == 1
with MSCCLProgram(
    "allgather_pairs",
    fully_connected(size),
    AllGather(size, factor, True),
    instances=2,
    protocol="LL128",
    threadblock_policy=ThreadblockPolicy.manual,
):
    for a in range(size):
        for b in range(size):
            if a != b:
                c = chunk(a, Buffer.input, 0, factor)
                assert (c.buffer, c.index, c.size, c.rank) == (Buffer.output, a * factor, factor, a)
                c.copy(b, Buffer.input, 0, sendtb=b, recvtb=a)
    XML()
    Check()
