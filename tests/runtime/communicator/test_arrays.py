"""What may be handed to a communicator: memory of any owner, never copied, and refused where it cannot serve."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

from hemiola._core import ElementType, Operator
from hemiola.errors import CollectiveError
from hemiola.runtime.communicator.arrays import address_of, as_array, element_of
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.communicator.numbers import CORE_OPERATORS, NUMBERS, OPERATORS
from runtime.worlds import on_ranks


class DlpackOnly:
    """An object whose memory can be had through DLPack alone."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __dlpack__(self, **options: Any) -> Any:
        return self._owner.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._owner.__dlpack_device__()


def test_every_element_type_of_the_core_is_known() -> None:
    assert [number.type for number in NUMBERS.values()] == list(ElementType)
    for name, number in NUMBERS.items():
        assert name == number.name
        assert number.storage.itemsize == number.type.num_bytes


def test_every_operator_of_the_core_is_known() -> None:
    assert OPERATORS == ("sum", "prod", "min", "max", "avg")
    assert set(CORE_OPERATORS.values()) == set(Operator)


@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "bfloat16"])
def test_numpy_arrays_are_taken_as_they_are(name: str) -> None:
    data = np.zeros(3, name)
    assert as_array(data) is data
    assert element_of(data) == name
    assert address_of(data, writable=True) == data.ctypes.data


@pytest.mark.parametrize(
    ("thing", "element", "num_bytes"),
    [
        (bytearray(5), "uint8", 5),
        (memoryview(bytearray(4)), "uint8", 4),
        (array.array("f", [1, 2]), "float32", 8),
        (array.array("d", [1, 2]), "float64", 16),
        (array.array("b", [1, 2]), "int8", 2),
        (array.array("i", [1, 2]), "int32", 8),
        (array.array("q", [1, 2]), "int64", 16),
        (memoryview(array.array("q", [1, 2])), "int64", 16),
    ],
)
def test_the_buffer_protocol_is_enough(thing: Any, element: str, num_bytes: int) -> None:
    taken = as_array(thing)
    assert element_of(taken) == element
    assert taken.nbytes == num_bytes
    np.frombuffer(memoryview(thing).cast("B"), np.uint8)[0] = 77
    assert np.asarray(taken).view(np.uint8)[0] == 77  # not a copy


def test_the_bytes_of_a_bytes_object_are_for_reading() -> None:
    taken = as_array(b"hemiola")
    assert address_of(taken, writable=False)
    with pytest.raises(CollectiveError, match="read-only"):
        address_of(taken, writable=True)


def test_memory_that_is_not_in_order_is_refused() -> None:
    for strange in (np.zeros((4, 4))[:, ::2], np.zeros((4, 4), order="F"), np.zeros(8)[::-1]):
        with pytest.raises(CollectiveError, match="in order"):
            address_of(strange, writable=False)


@pytest.mark.parametrize(
    "thing", [[1.0, 2.0], 3, "text", None, object()], ids=["list", "int", "str", "None", "object"]
)
def test_things_without_memory_are_refused(thing: object) -> None:
    with pytest.raises(CollectiveError, match=f"not {type(thing).__name__}"):
        as_array(thing)


@pytest.mark.parametrize("name", ["uint16", "uint32", "complex64", "bool", ">f4", "datetime64[s]"])
def test_other_types_are_refused(name: str) -> None:
    with pytest.raises(CollectiveError, match="known are float16, bfloat16"):
        element_of(np.zeros(2, name))


def test_dlpack_alone_is_enough() -> None:
    owner = np.arange(6, dtype=np.int32).reshape(2, 3)
    taken = as_array(DlpackOnly(owner))
    assert (element_of(taken), taken.nbytes) == ("int32", 24)
    assert address_of(taken, writable=True) == owner.ctypes.data
    with pytest.raises(CollectiveError, match="in order"):
        as_array(DlpackOnly(owner[:, ::2]))
    with pytest.raises(CollectiveError, match="not supported"):
        element_of(as_array(DlpackOnly(np.zeros(3, np.complex64))))


def test_dlpack_memory_that_is_read_only_is_refused() -> None:
    owner = np.arange(6)
    owner.flags.writeable = False
    with pytest.raises(CollectiveError, match="read-only"):
        as_array(DlpackOnly(owner))


class TestTensors:
    """PyTorch's tensors, bfloat16 among them."""

    torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("name", NUMBERS)
    def test_every_type_is_known(self, name: str) -> None:
        tensor = self.torch.zeros(3, dtype=getattr(self.torch, name))
        address = tensor.data_ptr()
        assert as_array(tensor) is tensor
        assert element_of(tensor) == name
        assert address_of(tensor, writable=True) == address

    def test_through_dlpack_alone(self) -> None:
        tensor: Any = self.torch.zeros(3, dtype=self.torch.bfloat16)
        taken = as_array(DlpackOnly(tensor))
        assert (element_of(taken), taken.nbytes, address_of(taken, writable=True)) == (
            "bfloat16",
            6,
            tensor.data_ptr(),
        )

    def test_what_is_not_contiguous_or_not_on_the_cpu_is_refused(self) -> None:
        with pytest.raises(CollectiveError, match="in order"):
            address_of(self.torch.zeros(4, 4).t(), writable=False)
        with pytest.raises(CollectiveError, match="is on meta"):
            address_of(self.torch.zeros(4, device="meta"), writable=False)
        with pytest.raises(CollectiveError, match="not supported"):
            element_of(self.torch.zeros(4, dtype=self.torch.complex64))

    @pytest.mark.parametrize("name", NUMBERS)
    def test_all_reduce_of_tensors(self, name: str) -> None:
        torch, dtype = self.torch, getattr(self.torch, name)

        def body(world: Communicator) -> Any:
            tensor = torch.full((5,), world.rank + 1, dtype=dtype)
            output = torch.zeros(5, dtype=dtype)
            world.all_reduce(tensor, output)
            world.all_reduce(tensor)
            return tensor.tolist(), output.tolist()

        assert on_ranks(3, body) == [([6] * 5, [6] * 5)] * 3

    def test_a_tensor_and_an_array_in_one_call(self) -> None:
        def body(world: Communicator) -> Any:
            tensor = self.torch.full((4,), world.rank + 1.0)
            output = np.zeros(8, np.float32)
            world.all_gather(tensor, output)
            return output.tolist()

        assert on_ranks(2, body) == [[1.0] * 4 + [2.0] * 4] * 2


def test_collectives_on_buffers_of_all_kinds() -> None:
    def body(world: Communicator) -> Any:
        n = world.rank + 1
        numbers = np.full((2, 3), n, np.int64)
        given: list[Any] = [bytearray([n] * 9), array.array("d", [n, n]), memoryview(bytearray([n] * 3))]
        for thing in (*given, DlpackOnly(numbers)):
            world.all_reduce(thing)
        gathered = bytearray(3)
        world.all_gather(bytes([n]), gathered)
        return [*map(list, given), numbers.tolist(), list(gathered)]

    expected = [[6] * 9, [6.0, 6.0], [6] * 3, [[6] * 3] * 2, [1, 2, 3]]
    assert on_ranks(3, body) == [expected] * 3


@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "bfloat16"])
def test_memory_need_not_be_aligned(name: str) -> None:
    """Every array begins one byte after an address that a number would like."""

    def crooked(value: int, length: int) -> Any:
        size = np.dtype(name).itemsize
        memory = np.zeros(length * size + 16, np.uint8)
        begin = (1 - memory.ctypes.data) % 16
        numbers = memory[begin : begin + length * size].view(name)
        assert numbers.ctypes.data % 16 == 1
        numbers[:] = value
        return numbers

    def body(world: Communicator) -> list[bool]:
        n, right = world.rank + 1, []
        for count in (1, 7, 100, 5000):
            data, output = crooked(n, count), crooked(0, count)
            gathered, scattered = crooked(0, 3 * count), crooked(0, count)
            world.all_reduce(data, output)
            world.all_gather(data, gathered)
            world.reduce_scatter(gathered, scattered, op="max")
            world.all_reduce(data)
            parts = gathered.reshape(3, count)
            right += [bool((output == 6).all()), bool((data == 6).all()), bool((scattered == n).all())]
            right += [bool((parts[rank] == rank + 1).all()) for rank in range(3)]
        return right

    assert on_ranks(3, body) == [[True] * 24] * 3
