# ruff: noqa: F403, F405
# mypy: ignore-errors
"""A topology read from the listing of another machine."""

from msccl.language import *
from msccl.language.collectives import AllToAll
from msccl.topologies import nvlink_only

LISTING = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tNV2\tNV1\t0-7\nGPU1\tNV2\t X \tSYS\t0-7\nGPU2\tNV1\tSYS\t X \t0-7\n"

topology = nvlink_only(LISTING)
assert topology.links == [[0, 2, 1], [2, 0, 0], [1, 0, 0]]
assert list(topology.destinations(1)) == [0]
assert list(topology.sources(0)) == [1, 2]
assert len(list(topology.bandwidth_constraints())) == 4
with MSCCLProgram("through_0", topology, AllToAll(3, 1, False), 1):
    for a in topology.nodes():
        for b in topology.nodes():
            c = chunk(a, Buffer.input, b)
            if {a, b} == {1, 2}:
                c = c.copy(0, "relay")
            c.copy(b, Buffer.output, a)
    XML()
    Check()
