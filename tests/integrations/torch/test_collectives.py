"""Every collective of torch.distributed against what it must give, on four processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from integrations.torch import moving, reducing, shapes
from integrations.torch.torch_ranks import TorchRanks

INTEGERS = ("SUM", "PRODUCT", "MIN", "MAX")
OPERATORS = {
    "float16": (*INTEGERS, "AVG"),
    "bfloat16": (*INTEGERS, "AVG"),
    "float32": (*INTEGERS, "AVG"),
    "float64": (*INTEGERS, "AVG"),
    "int8": INTEGERS,
    "uint8": INTEGERS,
    "int32": INTEGERS,
    "int64": INTEGERS,
    "bool": (*INTEGERS, "BOR", "BAND"),
    "complex64": ("SUM", "AVG"),
    "complex128": ("SUM",),
}
MOVED = ("float32", "bfloat16", "int64", "bool", "int16", "complex64", "float8_e4m3fn")


@pytest.mark.parametrize("name", OPERATORS)
def test_reductions_with_every_operator(ranks: TorchRanks, name: str) -> None:
    dtype = getattr(torch, name)
    for op in OPERATORS[name]:
        ranks.run(reducing.all_reduce, dtype, op)
        ranks.run(reducing.reduce_to_every_root, dtype, op)
        ranks.run(reducing.reduce_scatter, dtype, op)


@pytest.mark.parametrize("name", MOVED)
def test_moves_of_any_type(ranks: TorchRanks, name: str) -> None:
    dtype = getattr(torch, name)
    ranks.run(moving.broadcast_from_every_root, dtype)
    ranks.run(moving.all_gather, dtype)
    ranks.run(moving.all_to_all, dtype)
    ranks.run(moving.gather_and_scatter, dtype)


@pytest.mark.parametrize(
    "check",
    [
        reducing.reduce_scatter_of_different_sizes,
        reducing.coalesced,
        moving.all_gather_of_different_sizes,
        moving.all_gather_coalesced,
        moving.pairs,
        moving.objects,
        shapes.strided,
        shapes.special,
        shapes.one_tensor_without_a_list,
    ],
)
def test_collective(ranks: TorchRanks, check: Callable[[], None]) -> None:
    ranks.run(check)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("length", [1, 1000, 300_001])
def test_sums_are_the_same_bytes_on_every_rank(ranks: TorchRanks, name: str, length: int) -> None:
    answers = ranks.run(reducing.random_sum, getattr(torch, name), length)
    first, _ = answers[0]
    assert all(found == first for found, _ in answers)
    roundings = 3 * torch.finfo(getattr(torch, name)).eps
    assert max(error for _, error in answers) <= 12 * roundings
