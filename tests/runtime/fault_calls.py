"""Random collectives whose right results are known in closed form: what ranks do until one of them is lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hemiola import Communicator

Vector = npt.NDArray[np.generic]

SIZES = (4 << 10, 64 << 10, 1 << 20, 8 << 20)
"""Bytes of the larger side of a call."""
DTYPES = ("int32", "int64", "float32", "float64")
OPERATORS = ("sum", "min", "max")
NUM_VALUES = 61
STEP = 3
"""By how much the values of neighbouring ranks differ."""


class WrongResultError(Exception):
    """A call that returned, but not what it should."""


@dataclass(frozen=True, slots=True)
class Call:
    """One collective, the same on all ranks; element ``i`` of rank ``r`` is ``i % NUM_VALUES + STEP * r + shift``."""

    kind: str
    share: int
    """Elements of a rank's share."""
    dtype: str
    op: str
    root: int
    shift: int

    def given(self, rank: int, length: int) -> Vector:
        """What a rank brings."""
        return (_saw(length) + (STEP * rank + self.shift)).astype(self.dtype)

    def reduced(self, num_ranks: int, length: int) -> Vector:
        """What all ranks' arrays make together."""
        by_operator = {
            "sum": num_ranks * (_saw(length) + self.shift) + STEP * num_ranks * (num_ranks - 1) // 2,
            "min": _saw(length) + self.shift,
            "max": _saw(length) + self.shift + STEP * (num_ranks - 1),
        }
        return by_operator[self.op].astype(self.dtype)


def random_calls(seed: int, num_ranks: int) -> Iterator[Call]:
    """Calls without end, the same for all who know the seed."""
    chance = random.Random(seed)
    for number in range(1 << 62):
        dtype = chance.choice(DTYPES)
        elements = chance.choice(SIZES) // np.dtype(dtype).itemsize
        yield Call(
            chance.choice(tuple(KINDS)),
            elements // num_ranks,
            dtype,
            chance.choice(OPERATORS),
            chance.randrange(num_ranks),
            number % 7,
        )


def perform(comm: Communicator, call: Call) -> None:
    """Make a call; WrongResultError unless what came out is right."""
    got, expected = KINDS[call.kind](comm, call)
    if not np.array_equal(got, expected):
        wrong = np.flatnonzero(got != expected)
        raise WrongResultError(f"rank {comm.rank}: {len(wrong)} wrong elements from {wrong[0]} in {call}")


Result = tuple[Vector, Vector]


def _all_reduce(comm: Communicator, call: Call) -> Result:
    length = call.share * comm.world_size
    data = call.given(comm.rank, length)
    comm.all_reduce(data, op=call.op)
    return data, call.reduced(comm.world_size, length)


def _all_reduce_apart(comm: Communicator, call: Call) -> Result:
    length = call.share * comm.world_size + 1
    output = np.zeros(length, call.dtype)
    comm.all_reduce(call.given(comm.rank, length), output, op=call.op)
    return output, call.reduced(comm.world_size, length)


def _all_reduces_at_once(comm: Communicator, call: Call) -> Result:
    arrays = [call.given(comm.rank, call.share) for _ in range(3)]
    handles = [comm.all_reduce(data, op=call.op, wait=False) for data in arrays]
    for handle in handles:
        assert handle is not None
        handle.wait()
    return np.concatenate(arrays), np.tile(call.reduced(comm.world_size, call.share), len(arrays))


def _all_gather(comm: Communicator, call: Call) -> Result:
    output = np.zeros(call.share * comm.world_size, call.dtype)
    comm.all_gather(call.given(comm.rank, call.share), output)
    return output, np.concatenate([call.given(peer, call.share) for peer in range(comm.world_size)])


def _reduce_scatter(comm: Communicator, call: Call) -> Result:
    length = call.share * comm.world_size
    output = np.zeros(call.share, call.dtype)
    comm.reduce_scatter(call.given(comm.rank, length), output, op=call.op)
    return output, np.split(call.reduced(comm.world_size, length), comm.world_size)[comm.rank]


def _all_to_all(comm: Communicator, call: Call) -> Result:
    size, length = comm.world_size, call.share * comm.world_size
    output = np.zeros(length, call.dtype)
    comm.all_to_all(call.given(comm.rank, length), output)
    shares = [np.split(call.given(peer, length), size)[comm.rank] for peer in range(size)]
    return output, np.concatenate(shares)


def _uneven_all_to_all(comm: Communicator, call: Call) -> Result:
    """Rank ``a`` sends ``(a + b) % 3`` half shares to rank ``b``, which are as many as come back."""
    unit = call.share // 2
    lengths = [[(a + b) % 3 * unit for b in range(comm.world_size)] for a in range(comm.world_size)]
    own = lengths[comm.rank]
    output = np.zeros(sum(own), call.dtype)
    comm.all_to_all(call.given(comm.rank, sum(own)), output, input_lengths=own, output_lengths=own)
    pieces = []
    for peer, sent in enumerate(lengths):
        begin = sum(sent[: comm.rank])
        pieces.append(call.given(peer, sum(sent))[begin : begin + sent[comm.rank]])
    return output, np.concatenate(pieces)


def _broadcast(comm: Communicator, call: Call) -> Result:
    length = call.share * comm.world_size
    data = call.given(comm.rank, length)
    comm.broadcast(data, root=call.root)
    return data, call.given(call.root, length)


def _reduce(comm: Communicator, call: Call) -> Result:
    length = call.share * comm.world_size
    data = call.given(comm.rank, length)
    comm.reduce(data, root=call.root, op=call.op)
    on_root = comm.rank == call.root
    return data, call.reduced(comm.world_size, length) if on_root else call.given(comm.rank, length)


def _gather(comm: Communicator, call: Call) -> Result:
    if comm.rank == call.root:
        output = np.zeros(call.share * comm.world_size, call.dtype)
        comm.gather(call.given(comm.rank, call.share), output, root=call.root)
        return output, np.concatenate([call.given(peer, call.share) for peer in range(comm.world_size)])
    data = call.given(comm.rank, call.share)
    comm.gather(data, root=call.root)
    return data, call.given(comm.rank, call.share)


def _scatter(comm: Communicator, call: Call) -> Result:
    whole = call.given(call.root, call.share * comm.world_size)
    output = np.zeros(call.share, call.dtype)
    comm.scatter(whole if comm.rank == call.root else None, output, root=call.root)
    return output, np.split(whole, comm.world_size)[comm.rank]


def _barrier(comm: Communicator, call: Call) -> Result:
    comm.barrier()
    return np.zeros(0), np.zeros(0)


KINDS: dict[str, Callable[[Communicator, Call], Result]] = {
    "all_reduce": _all_reduce,
    "all_reduce_apart": _all_reduce_apart,
    "all_reduces_at_once": _all_reduces_at_once,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "uneven_all_to_all": _uneven_all_to_all,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "barrier": _barrier,
}


@lru_cache(maxsize=32)
def _saw(length: int) -> npt.NDArray[np.int64]:
    return np.arange(length, dtype=np.int64) % NUM_VALUES
