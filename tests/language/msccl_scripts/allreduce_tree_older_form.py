# ruff: noqa: F403, F405
# mypy: ignore-errors
"""A tree over a DGX-1, in the older words: send, and reduce into a rank, a buffer and an index."""

import argparse

from msccl.language import *
from msccl.language.collectives import AllReduce
from msccl.topologies.distributed import *
from msccl.topologies.nvidia import *

parser = argparse.ArgumentParser()
parser.add_argument("num_nodes", type=int)
args = parser.parse_args()

topology = distributed_fully_connected(dgx1(), args.num_nodes, 1)
order = [1, 3, 2, 6, 7, 5, 4, 0]
with MSCCLProgram("dgx1", topology, AllReduce(topology.num_nodes(), 1, True), 1):
    for n in range(args.num_nodes):
        c = chunk(order[0] + 8 * n, Buffer.input, 0)
        for g in order[1:]:
            c = c.reduce(g + 8 * n, Buffer.input, 0)
        if n:
            c.reduce(0, buffer=Buffer.input, index=0)
    for n in range(args.num_nodes):
        c = chunk(0, Buffer.input, 0)
        if n:
            c = c.send(8 * n, Buffer.input, 0)
        for g in reversed(order[:-1]):
            c = c.send(g + 8 * n)
    XML()
    Check()
