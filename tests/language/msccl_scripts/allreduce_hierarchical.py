# ruff: noqa: F403, F405
# mypy: ignore-errors
"""Reduce-scatter and all-gather inside a node and across nodes, on groups and splits of chunks."""

from msccl.language import *
from msccl.language.collectives import AllReduce
from msccl.topologies import *
from ring_steps import gather_ring, scatter_ring

gpus, nodes = 4, 2
topology = distributed_hub_and_spoke(dgx_a100(), nodes, 1)
assert topology.num_nodes() == 16
assert len(topology.switches) == 4
topology = binarize_topology(distributed_fully_connected(fully_connected(gpus), nodes, 25))

with MSCCLProgram("hierarchical", topology, AllReduce(gpus * nodes, gpus * nodes, True), 2):
    for n in range(nodes):
        scatter_ring([n * gpus + g for g in range(gpus)], lambda share: (share * nodes, nodes), ch=0)
    for g in range(gpus):
        ranks = [n * gpus + g for n in range(nodes)]
        scatter_ring(ranks, lambda share, g=g: (g * nodes + share, 1), ch=1)
        gather_ring(ranks, lambda share, g=g: (g * nodes + share, 1), ch=1)
    for n in range(nodes):
        gather_ring([n * gpus + g for g in range(gpus)], lambda share: (share * nodes, nodes), ch=2)
    XML()
    Check()
