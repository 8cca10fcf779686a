"""What the runtime is given for a tensor or a list of them, and what comes back."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from hemiola.errors import CollectiveError
from hemiola.integrations.torch.packs import SMALL_BYTES, packs
from hemiola.integrations.torch.splits import split_lengths
from hemiola.integrations.torch.tensors import (
    flat,
    joined,
    needs_no_copy,
    staged,
    staged_list,
    staged_outputs,
)


def test_a_contiguous_tensor_is_its_own_array() -> None:
    tensor = torch.ones(3, 4)
    assert needs_no_copy(tensor)
    assert flat(tensor, "call") is tensor
    assert staged(tensor, "call") == (tensor, None)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.complex64, torch.float8_e5m2])
def test_unknown_types_are_carried_in_their_own_memory(dtype: torch.dtype) -> None:
    tensor = torch.ones(6).to(dtype)
    array, finish = staged(tensor, "call")
    assert finish is None
    assert array.data_ptr() == tensor.data_ptr()
    assert array.nbytes == tensor.nbytes
    assert array.dtype == (torch.float32 if dtype.is_complex else torch.uint8)


def test_a_parameter_is_written_without_its_gradient_noticing() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    array, finish = staged(parameter, "call")
    array.fill_(5)
    assert finish is None
    assert parameter.tolist() == [5, 5, 5]
    assert parameter.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int16, torch.complex128])
def test_a_strided_tensor_is_written_back(dtype: torch.dtype) -> None:
    around = torch.zeros(4, 6, dtype=dtype)
    array, finish = staged(around.t()[::2], "call")
    assert array.data_ptr() != around.data_ptr()
    array.view(-1).view(dtype).fill_(1)
    assert not around.any()
    assert finish is not None
    finish()
    assert around[:, ::2].all()
    assert not around[:, 1::2].any()


def test_neighbours_in_memory_are_one_array() -> None:
    whole = torch.arange(12.0)
    parts = [whole[:3], whole[3:3], whole[3:4].view(1, 1), whole[4:]]
    array, finish = staged_outputs(parts, "call")
    assert finish is None
    assert (array.data_ptr(), array.numel()) == (whole.data_ptr(), 12)
    assert staged_list(parts, "call").finish is None
    assert joined(parts, "call").data_ptr() == whole.data_ptr()


def test_tensors_apart_are_joined_and_dealt_out_again() -> None:
    whole = torch.arange(12.0)
    parts = [whole[4:8], whole[:4].view(2, 2).t(), torch.full((2,), 9.0), torch.empty(0)]
    assert joined(parts, "call").tolist() == [4, 5, 6, 7, 0, 2, 1, 3, 9, 9]
    array, finish = staged_list(parts, "call")
    array.add_(100)
    assert finish is not None
    finish()
    assert parts[2].tolist() == [109, 109]
    assert whole.tolist() == [100, 101, 102, 103, 104, 105, 106, 107, 8, 9, 10, 11]


def test_memory_that_only_happens_to_follow_is_not_joined() -> None:
    """Two storages over one buffer: next to each other, but neither reaches into the other."""
    buffer = bytearray(16)
    parts = [torch.frombuffer(buffer, dtype=torch.float32, count=2, offset=offset) for offset in (0, 8)]
    assert parts[1].data_ptr() - parts[0].data_ptr() == 8
    assert staged_outputs(parts, "call").finish is not None


def test_lists_of_several_types_are_refused() -> None:
    with pytest.raises(CollectiveError, match=r"call got 2 tensors of types .*float32.*int32"):
        joined([torch.ones(2), torch.ones(2, dtype=torch.int32)], "call")


def test_a_tensor_that_holds_others_is_refused() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with pytest.raises(CollectiveError, match="call got a NestedTensor, which holds other tensors"):
        flat(nested, "call")


def test_small_neighbours_of_one_type_are_packed() -> None:
    small, large = torch.ones(2), torch.ones(SMALL_BYTES // 4 + 1)
    other = torch.ones(2, dtype=torch.int32)
    found = [
        [tensor.numel() for tensor in pack] for pack in packs([small, small, other, large, other, small])
    ]
    assert found == [[2, 2], [large.numel()], [2, 2], [2]]


def test_splits_count_rows() -> None:
    tensor = torch.zeros(6, 4, dtype=torch.complex64)
    assert split_lengths(tensor, torch.view_as_real(tensor), [1, 5], 2, "input") == [8, 40]
    assert split_lengths(tensor, tensor, [], 3, "input") == [8, 8, 8]
    assert split_lengths(tensor[:0], tensor[:0], [0, 0], 2, "input") == [0, 0]
