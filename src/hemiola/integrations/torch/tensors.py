"""Tensors in the form that the runtime takes: contiguous CPU memory of a type that it knows.

A contiguous tensor is passed itself and never copied. For any other tensor a contiguous copy is passed, and
``Staged.finish`` copies the result into the tensor when the call has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from hemiola.errors import CollectiveError

Finish = Callable[[], None]

_KNOWN = frozenset(
    {
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.int8,
        torch.uint8,
        torch.int32,
        torch.int64,
    }
)
_CARRIERS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
"""Complex numbers are passed as pairs of real ones; every other type that the runtime does not know is passed as bytes."""

_IS_WRAPPER: Callable[[Tensor], bool] = is_traceable_wrapper_subclass


class Staged(NamedTuple):
    """The array that the runtime is given for one or several tensors."""

    array: Tensor
    finish: Finish | None
    """Copies the result into the tensors; None where the array is their own memory."""


def needs_no_copy(tensor: Tensor) -> bool:
    """Whether the tensor can be passed to the runtime without a copy. It is called often, so it must be fast."""
    return (
        type(tensor) is Tensor
        and tensor.dtype in _KNOWN
        and tensor.is_contiguous()
        and tensor.is_cpu
        and not tensor.requires_grad
        and not tensor.is_neg()
    )


def flat(tensor: Tensor, call: str) -> Tensor:
    """The memory to read a tensor from: its own, or a contiguous copy."""
    if needs_no_copy(tensor):
        return tensor
    return _carried(_in_order(_plain(tensor, call)))


def staged(tensor: Tensor, call: str) -> Staged:
    """The memory to read a tensor from and to write it to: its own, or a copy that ``finish`` copies back."""
    if needs_no_copy(tensor):
        return Staged(tensor, None)
    target = _plain(tensor, call)
    array = _carried(_in_order(target))
    return Staged(array, None if is_in_order(target) else partial(_write_back, target, array))


def staged_list(tensors: Sequence[Tensor], call: str) -> Staged:
    """The memory to read several tensors from and to write them to, one after the other."""
    parts = _alike(tensors, call)
    whole = _adjacent(parts)
    if whole is not None:
        return Staged(_carried(whole), None)
    whole = torch.cat([part.reshape(-1) for part in parts])
    return Staged(_carried(whole), partial(_deal_out, parts, whole))


def joined(tensors: Sequence[Tensor], call: str) -> Tensor:
    """The memory to read several tensors from, one after the other."""
    return staged_list(tensors, call).array


def staged_outputs(tensors: Sequence[Tensor], call: str) -> Staged:
    """The memory to write several tensors to, one after the other; a copy is not initialised."""
    parts = _alike(tensors, call)
    whole = _adjacent(parts)
    if whole is not None:
        return Staged(_carried(whole), None)
    whole = torch.empty(sum(part.numel() for part in parts), dtype=parts[0].dtype)
    return Staged(_carried(whole), partial(_deal_out, parts, whole))


def _plain(tensor: Tensor, call: str) -> Tensor:
    """The same memory as an ordinary tensor without a gradient; CollectiveError where a tensor has no such memory."""
    if isinstance(tensor, AsyncCollectiveTensor):
        return _plain(tensor.wait(), call)
    if _IS_WRAPPER(tensor):
        raise CollectiveError(
            f"{call} got a {type(tensor).__name__}, which holds other tensors and no memory of its own; "
            "pass what it holds (of a DTensor: to_local())"
        )
    if not tensor.is_cpu:
        raise CollectiveError(
            f"{call} got a tensor on {tensor.device}, and backend hemiola moves CPU memory only; pass "
            "tensor.cpu(), or use a group with a backend for that device"
        )
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise CollectiveError(
            f"{call} got a tensor of layout {tensor.layout} and type {tensor.dtype}, and backend hemiola moves "
            "dense ones only; pass tensor.to_dense() or tensor.dequantize()"
        )
    return tensor.detach().as_subclass(Tensor)


def is_in_order(tensor: Tensor) -> bool:
    """Whether the memory of a tensor holds its elements in order, with no pending conjugation or negation."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def _in_order(tensor: Tensor) -> Tensor:
    return tensor.resolve_conj().resolve_neg().contiguous()


def _carried(tensor: Tensor) -> Tensor:
    """The same memory as a tensor of a type that the runtime knows."""
    if tensor.dtype in _KNOWN:
        return tensor
    return tensor.view(-1).view(_CARRIERS.get(tensor.dtype, torch.uint8))


def _alike(tensors: Sequence[Tensor], call: str) -> list[Tensor]:
    types = {tensor.dtype for tensor in tensors}
    if len(types) != 1:
        raise CollectiveError(
            f"{call} got {len(tensors)} tensors of types {sorted(map(str, types))}; a list needs at least one, "
            "all of one type"
        )
    return [_plain(tensor, call) for tensor in tensors]


def _adjacent(tensors: Sequence[Tensor]) -> Tensor | None:
    """One tensor over the memory of all of them; None unless each begins where the one before it ends."""
    filled = [tensor for tensor in tensors if tensor.numel()]
    if not filled:
        return tensors[0].new_empty(0)
    ends = (tensor.data_ptr() + tensor.nbytes for tensor in filled)
    if not all(map(is_in_order, filled)) or any(
        end != after.data_ptr() for end, after in zip(ends, filled[1:], strict=False)
    ):
        return None
    storages = [tensor.untyped_storage().data_ptr() for tensor in filled]
    if any(one != other for one, other in pairwise(storages)):
        return None
    return filled[0].as_strided((sum(tensor.numel() for tensor in filled),), (1,))


def _write_back(target: Tensor, array: Tensor) -> None:
    target.copy_(array.view(-1).view(target.dtype).view(target.shape))


def _deal_out(targets: Sequence[Tensor], whole: Tensor) -> None:
    start = 0
    for target in targets:
        target.copy_(whole.narrow(0, start, target.numel()).view(target.shape))
        start += target.numel()
