# ruff: noqa: F403, F405
# mypy: ignore-errors
"""Steps that several scripts share, imported from beside them."""

from msccl.language import *


def scatter_ring(ranks, share_of, ch):
    """Afterwards ranks[k] has the sum of share k."""
    for share in range(len(ranks)):
        index, size = share_of(share)
        for hop in range(1, len(ranks)):
            source = chunk(ranks[(share + hop) % len(ranks)], Buffer.input, index, size)
            target = chunk(ranks[(share + hop + 1) % len(ranks)], Buffer.input, index, size)
            target.reduce(source, ch=ch)


def gather_ring(ranks, share_of, ch):
    """Hands share k of ranks[k] to all, piece by piece."""
    for share in range(len(ranks)):
        index, size = share_of(share)
        pieces = chunk(ranks[share], Buffer.input, index, size).split(size)
        for hop in range(1, len(ranks)):
            whole = pieces[0]
            for piece in pieces[1:]:
                whole = piece.group(whole)
            pieces = whole.copy(ranks[(share + hop) % len(ranks)], ch=ch).split(size)
