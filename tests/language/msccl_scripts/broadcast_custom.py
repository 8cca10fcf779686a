# ruff: noqa: F403, F405
# mypy: ignore-errors
"""A broadcast in place: both names are one list, and only the root's holds something before."""

from msccl.language import *
from msccl.language.collectives import Collective
from msccl.topologies import line


class Broadcast(Collective):
    def __init__(self, num_ranks, chunk_factor, root):
        super().__init__(num_ranks, chunk_factor, inplace=True)
        self.root = root

    def init_buffers(self):
        rows = [
            [Chunk(r, c) if r == self.root else None for c in range(self.chunk_factor)]
            for r in range(self.num_ranks)
        ]
        return [{Buffer.input: row, Buffer.output: row} for row in rows]

    def check(self, prog):
        expected = [Chunk(self.root, c) for c in range(self.chunk_factor)]
        return all(row[Buffer.output] == expected for row in prog.buffers)


size, root = 5, 2
with MSCCLProgram("broadcast", line(size), Broadcast(size, 3, root), 1, protocol="LL"):
    for ranks in (range(root, 0, -1), range(root, size - 1)):
        step = -1 if ranks.step < 0 else 1
        for r in ranks:
            chunk(r, Buffer.input, 0, 3).copy(r + step)
    assert Check()
    XML()
