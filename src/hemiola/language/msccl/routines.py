"""The two ready-made rings that scripts may call inside a program."""

from __future__ import annotations

from hemiola.language.msccl.enums import Buffer
from hemiola.language.msccl.program import chunk


def allgather_ring_inplace(gpus: int, gpu_offset: int = 0, index_offset: int = 0, ch: int = 0) -> None:
    """Every rank's input travels round the ring of ``gpus`` ranks from ``gpu_offset`` on."""
    for start in range(gpus):
        c = chunk(gpu_offset + start, Buffer.input, 0)
        for hop in range(1, gpus):
            c = c.copy(gpu_offset + (start + hop) % gpus, Buffer.output, index_offset + start, ch=ch)


def allreduce_ring_inplace(gpus: int, gpu_offset: int = 0, index_offset: int = 0, ch: int = 0) -> None:
    """Chunk ``k`` is summed once round the ring of ``gpus`` ranks, and goes round once more as a copy."""
    for start in range(gpus):
        index = index_offset + start
        c = chunk(gpu_offset + start, Buffer.input, index)
        for hop in range(1, gpus):
            c = chunk(gpu_offset + (start + hop) % gpus, Buffer.input, index).reduce(c, ch=ch)
        for hop in range(gpus, 2 * gpus - 1):
            c = c.copy(gpu_offset + (start + hop) % gpus, Buffer.input, index, ch=ch)
