# ruff: noqa: F403, F405
# mypy: ignore-errors
"""One gateway per pair of nodes; scratch buffers named by tuples, grouped as they fill and split at the end."""

from msccl.language import *
from msccl.language.collectives import AllToAll
from msccl.topologies import fully_connected

nodes, gpus = 3, 2
gathered = {}
with MSCCLProgram("three_step", fully_connected(nodes * gpus), AllToAll(nodes * gpus, 1, False), 1):
    for n1 in range(nodes):
        for g1 in range(gpus):
            for n2 in range(nodes):
                for g2 in range(gpus):
                    c = chunk(n1 * gpus + g1, Buffer.input, n2 * gpus + g2)
                    if n1 == n2:
                        c.copy(c.get_dst_rank(), Buffer.output, c.get_dst_index())
                        continue
                    c = c.copy(n1 * gpus + n2 % gpus, buffer=(n1, n2))
                    gathered[n1, n2] = gathered[n1, n2].group(c) if (n1, n2) in gathered else c
    for (n1, n2), c in gathered.items():
        assert c.size == gpus * gpus
        c = c.copy(n2 * gpus + n1 % gpus, Buffer.scratch, ch=1)
        for part in c.split(gpus * gpus):
            part.copy(part.get_dst_rank(), Buffer.output, part.get_dst_index(), ch=2)
    XML()
    Check()
