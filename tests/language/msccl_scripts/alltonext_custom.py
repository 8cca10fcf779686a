# ruff: noqa: F403, F405
# mypy: ignore-errors
"""Rank r's input becomes rank r + 1's output; between nodes the chunks spread over all ranks of a node."""

import argparse

from msccl.language import *
from msccl.language.collectives import Collective
from msccl.topologies import *


class Pipeline(Collective):
    def init_buffers(self):
        last = self.num_ranks - 1
        return [
            {
                Buffer.input: [
                    Chunk(r, c, r + 1, c) if r != last else None for c in range(self.chunk_factor)
                ],
                Buffer.output: [None] * self.chunk_factor,
            }
            for r in range(self.num_ranks)
        ]

    def check(self, prog):
        correct = True
        for r in range(1, self.num_ranks):
            output = prog.buffers[r][Buffer.output]
            for c in range(self.chunk_factor):
                chunk = output[c]
                if chunk is None or chunk.origin_rank != r - 1 or chunk.origin_index != c:
                    print(f"rank {r} chunk {c} holds {chunk}")
                    correct = False
        return correct


def pipeline(nodes, gpus, instances):
    size = nodes * gpus
    with MSCCLProgram("alltonext", fully_connected(size), Pipeline(size, gpus, True), instances):
        for r in range(size - 1):
            if r % gpus != gpus - 1:
                chunk(r, Buffer.input, 0, gpus).copy(r + 1, Buffer.output, 0)
                continue
            n = r // gpus
            for g in range(gpus):
                c = chunk(r, Buffer.input, g)
                if g != gpus - 1:
                    c = c.copy(n * gpus + g, f"s{n}->{n + 1}", 0)
                if g:
                    c = c.copy((n + 1) * gpus + g, f"s{n}->{n + 1}", 0)
                c.copy(r + 1, Buffer.output, c.get_dst_index())
        Check()
        XML()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("num_nodes", type=int)
    parser.add_argument("instances", type=int)
    args = parser.parse_args()
    pipeline(args.num_nodes, 3, args.instances)
