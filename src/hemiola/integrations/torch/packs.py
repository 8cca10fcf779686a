"""How a list of tensors is reduced with few calls: small ones side by side, large ones where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

SMALL_BYTES = 32 * 1024
"""Below this a copy costs less than a call; every rank has the same sizes, so all ranks pack alike."""


def packs(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours of one type that are small, together; every other tensor alone."""
    pack: list[Tensor] = []
    for tensor in tensors:
        if tensor.nbytes > SMALL_BYTES:
            yield [tensor]
            continue
        if pack and pack[-1].dtype != tensor.dtype:
            yield pack
            pack = []
        pack.append(tensor)
    if pack:
        yield pack
