# mypy: ignore-errors
"""Recursive halving, then doubling, with and without fusion; two programs in one script."""

from __future__ import annotations

import msccl.language as lang
import msccl.language.collectives
from msccl.topologies.generic import hub_and_spoke


def halving_doubling(name, size, fusion):
    collective = msccl.language.collectives.AllReduce(size, size, True)
    with lang.MSCCLProgram(name, hub_and_spoke(size), collective, 1, instr_fusion=fusion):
        first = [0] * size
        count = size
        while count > 1:
            count //= 2
            for r in range(size):
                peer = r ^ count
                index = first[r] + (count if peer & count else 0)
                lang.chunk(peer, lang.Buffer.input, index, count).reduce(
                    lang.chunk(r, lang.Buffer.input, index, count)
                )
            first = [at + (count if r & count else 0) for r, at in enumerate(first)]
        while count < size:
            for r in range(size):
                lang.chunk(r, lang.Buffer.input, first[r], count).copy(r ^ count)
            first = [at - (count if r & count else 0) for r, at in enumerate(first)]
            count *= 2
        lang.XML()
        lang.Check()


halving_doubling("plain", 8, False)
halving_doubling("fused", 4, True)
