# ruff: noqa: F403, F405
# mypy: ignore-errors
"""A sum that ends in an input: the collective has outputs, but its check asks for the input of rank 2."""

from msccl.language import *
from msccl.language.collectives import Collective
from msccl.topologies import line


class SumOnTwo(Collective):
    def init_buffers(self):
        return [{Buffer.input: [Chunk(r, 0, 2, 0)], Buffer.output: [None]} for r in range(self.num_ranks)]

    def check(self, prog):
        expected = ReduceChunk(-1, [])
        for r in range(self.num_ranks):
            expected = expected.reduce(-1, Chunk(r, 0))
        return prog.buffers[2][Buffer.input][0] == expected


with MSCCLProgram("sum", line(3), SumOnTwo(3, 1, inplace=True), 1):
    c = chunk(1, Buffer.input, 0).reduce(chunk(0, Buffer.input, 0))
    c = c.copy(2, "scratch", 0)
    c.print_chunk_info()
    chunk(2, Buffer.input, 0).reduce(c)
    assert Check()
