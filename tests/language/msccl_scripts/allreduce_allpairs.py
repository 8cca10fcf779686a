# ruff: noqa: F403, F405
# mypy: ignore-errors
"""Everybody collects its share from all in scratch, sums it on many threadblocks, and hands it out."""

import sys

from msccl.language import *
from msccl.language.collectives import AllReduce
from msccl.topologies import fully_connected

size, instances = int(sys.argv[1]), int(sys.argv[2])
collective = AllReduce(size, size * size, inplace=True)
with MSCCLProgram(
    "allpairs",
    fully_connected(size),
    collective,
    instances,
    protocol="LL",
    interleaved_replication=False,
    threadblock_policy=ThreadblockPolicy.manual,
    dependence_nop=True,
    check_xml=False,
):
    pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
    for a, b in pairs:
        c = chunk(a, Buffer.input, b * size, size=size)
        c.copy(b, "scratch", sendtb=b, recvtb=a)
    for r in range(size):
        for index in range(size * (size - 1)):
            c = chunk(r, Buffer.input, r * size + index % size)
            c.reduce(chunk(r, "scratch", index), sendtb=index % size)
    for a, b in pairs:
        chunk(a, Buffer.input, a * size, size).copy(b, Buffer.input, a * size, sendtb=b, recvtb=a)
    XML()
    assert Check()
