"""Checks of the arguments of a call; every error says what was expected and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from torch import Tensor

from hemiola.errors import CollectiveError

Item = TypeVar("Item")


def only(items: Sequence[Item], call: str) -> Item:
    """The only item of a list. c10d passes lists for processes with several devices; on CPUs they have one item."""
    if len(items) != 1:
        raise CollectiveError(
            f"{call} got {len(items)} tensors or lists where it takes one; call it once for each"
        )
    return items[0]


def check_pairs(outputs: Sequence[Tensor], inputs: Sequence[Tensor], call: str) -> None:
    if len(outputs) != len(inputs):
        raise CollectiveError(
            f"{call} got {len(outputs)} outputs for {len(inputs)} inputs; give one for each"
        )


def check_one_per_rank(tensors: Sequence[Tensor], world_size: int, call: str) -> None:
    if len(tensors) != world_size:
        raise CollectiveError(
            f"{call} got a list of {len(tensors)} tensors in a group of {world_size} ranks; give one per rank"
        )


def check_shares(shares: Sequence[Tensor], part: Tensor, world_size: int, call: str) -> None:
    """Check that a list has one tensor per rank, each as large as the single tensor."""
    check_one_per_rank(shares, world_size, call)
    for rank, share in enumerate(shares):
        check_type(share, part, call)
        if share.numel() != part.numel():
            raise CollectiveError(
                f"{call} got {share.numel()} elements for rank {rank} beside a tensor of {part.numel()}; make "
                "them equally large, or use all_to_all"
            )


def check_whole(whole: Tensor, part: Tensor, world_size: int, call: str) -> None:
    """Check that a tensor is as large as the parts of all ranks together."""
    check_type(whole, part, call)
    if whole.numel() != part.numel() * world_size:
        raise CollectiveError(
            f"{call} got a tensor of {whole.numel()} elements for {world_size} parts of {part.numel()}; it needs "
            f"{part.numel() * world_size}"
        )


def check_type(one: Tensor, other: Tensor, call: str) -> None:
    if one.dtype != other.dtype:
        raise CollectiveError(
            f"{call} got tensors of types {one.dtype} and {other.dtype}; give them one type"
        )
