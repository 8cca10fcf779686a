# ruff: noqa: F403, F405
# mypy: ignore-errors
"""An all-gather of one's own, in place: get_buffer_index says where in the output the input lies."""

from msccl.language import *
from msccl.language.collectives import AllGather, Collective
from msccl.topologies import ring


class Gather(Collective):
    def init_buffers(self):
        rows = []
        for r in range(self.num_ranks):
            output = [Chunk(r, 0) if at == r else None for at in range(self.num_ranks)]
            rows.append({Buffer.input: output[r : r + 1], Buffer.output: output})
        return rows

    def get_buffer_index(self, rank, buffer, index):
        if buffer == Buffer.input:
            return Buffer.output, rank + index
        return buffer, index

    def check(self, prog):
        outputs = [prog.buffers[r][Buffer.output] for r in range(self.num_ranks)]
        return all(output[at] == Chunk(at, 0) for output in outputs for at in range(len(output)))


class EvenGather(AllGather):
    """Only the even ranks must know everything; the rest of its meaning is that of all-gather."""

    def check(self, prog):
        return all(
            prog.buffers[r][Buffer.output][at].origin_rank == at
            for r in range(0, self.num_ranks, 2)
            for at in range(self.num_ranks)
        )


size = 4
for collective in (Gather(size, 1, True), EvenGather(size, 1, True)):
    with MSCCLProgram(type(collective).__name__, ring(size), collective, 1):
        for start in range(size):
            c = chunk(start, Buffer.input, 0)
            for hop in range(1, size):
                c = c.copy((start + hop) % size)
        XML()
        Check()
