"""``packs``: groups a list of tensors so that it is reduced with few calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

SMALL_BYTES = 32 * 1024
"""A tensor up to this size is copied into a pack, because the copy costs less than a call. All ranks have the same sizes,
so all ranks make the same packs."""


def packs(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Packs of neighbouring small tensors of one type; every large tensor is a pack of its own."""
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
