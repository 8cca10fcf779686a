# ruff: noqa: F403, F405
# mypy: ignore-errors
"""Chunks meet on the local rank that will send them, and cross in one message per pair of nodes."""

import argparse

from msccl.collectives import *
from msccl.language import *
from msccl.language.collectives import AllToAll
from msccl.language.types import ReplicationPolicy
from msccl.topologies import *

parser = argparse.ArgumentParser()
parser.add_argument("num_nodes", type=int)
parser.add_argument("gpus_per_node", type=int)
args = parser.parse_args()
nodes, gpus = args.num_nodes, args.gpus_per_node

with MSCCLProgram(
    "two_step",
    fully_connected(nodes * gpus),
    AllToAll(nodes * gpus, 1, inplace=False),
    2,
    replication_policy=ReplicationPolicy.interleaved,
):
    for n1 in range(nodes):
        for n2 in range(nodes):
            if n1 == n2:
                continue
            for g1 in range(gpus):
                for g2 in range(gpus):
                    c = chunk(n1 * gpus + g1, Buffer.input, n2 * gpus + g2)
                    c.copy(n1 * gpus + g2, f"to_{n2}")
            for g in range(gpus):
                c = chunk(n1 * gpus + g, f"to_{n2}", 0, gpus)
                assert c.get_dst_rank() == n2 * gpus + g
                c.copy(n2 * gpus + g, Buffer.output, c.get_dst_index(), ch=g % 2)
    for r in range(nodes * gpus):
        for g in range(gpus):
            c = chunk(r, Buffer.input, r // gpus * gpus + g)
            assert (c.get_origin_rank(), c.get_origin_index()) == (r, c.index)
            c.copy(c.get_dst_rank(), Buffer.output, c.get_dst_index())
    XML()
    Check()
