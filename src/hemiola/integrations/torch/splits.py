"""``split_lengths``: the number of elements that an all-to-all sends to, or receives from, each rank."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from hemiola.errors import CollectiveError


def split_lengths(
    tensor: Tensor, array: Tensor, rows: Sequence[int], world_size: int, what: str
) -> list[int]:
    """The number of elements of ``array`` per rank, from ``rows`` of the first dimension of the ``tensor`` that it stands for.

    Without rows the parts are equal.

    A tensor of shape (6, 4) with rows [1, 5] is split into [4, 20], and carried as pairs into [8, 40].
    """
    num_rows = tensor.shape[0] if tensor.dim() else tensor.numel()
    if rows and (len(rows) != world_size or sum(rows) != num_rows or min(rows) < 0):
        raise CollectiveError(
            f"all_to_all_single got {what}_split_sizes {list(rows)} for {num_rows} rows and {world_size} ranks; "
            "give one size per rank, together all rows"
        )
    if not rows and num_rows % world_size:
        raise CollectiveError(
            f"all_to_all_single got an {what} of {num_rows} rows, which {world_size} ranks cannot share equally; "
            f"give {what}_split_sizes"
        )
    row_length = array.numel() // num_rows if num_rows else 0
    return [count * row_length for count in rows or [num_rows // world_size] * world_size]
