"""What cannot be is said before anything moves, and the communicator stays usable."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.errors import CollectiveError, RunError
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.settings import Settings
from runtime.worlds import on_ranks, raising


@pytest.mark.parametrize(
    ("sentence", "wrong"),
    [
        ("on rank . has 24 bytes, but 2 x", lambda w: w.all_gather(np.zeros(2), np.zeros(3))),
        ("on rank . has 8 bytes, but 2 x", lambda w: w.reduce_scatter(np.zeros(1), np.zeros(1))),
        ("has 16 bytes, but 1 x 8", lambda w: w.all_reduce(np.zeros(1), np.zeros(2))),
        ("cannot be cut into 2 equal shares", lambda w: w.all_to_all(np.zeros(3), np.zeros(3))),
        (
            "of one type, but are float64 and float32",
            lambda w: w.all_reduce(np.zeros(2), np.zeros(4, "f4")),
        ),
        ("of one type", lambda w: w.all_gather(np.zeros(2, "i4"), np.zeros(4, "f4"))),
        ("elements of type uint16 are not", lambda w: w.all_reduce(np.zeros(2, np.uint16))),
        ("elements of type bool are not", lambda w: w.all_reduce(np.zeros(2, bool))),
        ("no operator 'xor'", lambda w: w.all_reduce(np.zeros(2), op="xor")),
        ("not list", lambda w: w.all_reduce([1.0, 2.0])),
        ("read-only", lambda w: w.all_reduce(np.broadcast_to(np.zeros(1), 1))),
        ("read-only", lambda w: w.all_reduce(bytes(8))),
        ("read-only", lambda w: w.broadcast(bytes(8))),
        ("in order", lambda w: w.all_reduce(np.zeros(8)[::2])),
        ("in order", lambda w: w.all_reduce(np.zeros((2, 2), order="F"))),
        ("in order", lambda w: w.all_gather(np.zeros(8)[::2], np.zeros(8))),
        ("overlap", lambda w: overlapping(w)),
        ("root is a rank from 0 to 1, but is 2", lambda w: w.broadcast(np.zeros(2), root=2)),
        ("root is a rank from 0 to 1, but is -1", lambda w: w.reduce(np.zeros(2), root=-1)),
        ("another rank from 0 to 1, but 2", lambda w: w.send(np.zeros(1), 2)),
        ("peer of rank . is another rank", lambda w: w.recv(np.zeros(1), w.rank)),
        (
            "length for each of the 2 ranks",
            lambda w: w.all_to_all(*np.zeros((2, 4)), input_lengths=[1, 2, 1]),
        ),
        ("in all 4 elements", lambda w: w.all_to_all(*np.zeros((2, 4)), input_lengths=[1, 2])),
        ("in all 4 elements", lambda w: w.all_to_all(*np.zeros((2, 4)), output_lengths=[5, -1])),
    ],
)
def test_calls_that_cannot_be(sentence: str, wrong: Callable[[Communicator], object]) -> None:
    def body(world: Communicator) -> float:
        data = np.ones(1)
        for _ in range(2):
            raising(CollectiveError, sentence, lambda: wrong(world))
            world.all_reduce(data)
        return float(data[0])

    assert on_ranks(2, body) == [4.0, 4.0]


@pytest.mark.parametrize("first", [True, False])
def test_of_arrays_like_those_of_an_earlier_call(first: bool) -> None:
    """A call that was made before is found by type and size; the array is looked at all the same."""

    def body(world: Communicator) -> None:
        right = np.ones(4)
        if not first:
            world.all_reduce(right)
        frozen = np.ones(4)
        frozen.flags.writeable = False
        raising(CollectiveError, "in order", lambda: world.all_reduce(np.ones(8)[::2]))
        raising(CollectiveError, "read-only", lambda: world.all_reduce(frozen))
        world.all_reduce(right)

    on_ranks(2, body)


def test_roots_need_their_side() -> None:
    def body(world: Communicator) -> None:
        if world.rank == 1:
            raising(CollectiveError, "needs an output on its root", lambda: world.gather(np.ones(1), root=1))
            raising(
                CollectiveError,
                "needs an input on its root",
                lambda: world.scatter(None, np.ones(1), root=1),
            )

    on_ranks(2, body)


def test_plans_of_another_size_or_for_other_data() -> None:
    ring = compile_program(build("allreduce_ring", {"ranks": "3"})).plan
    pairs = compile_program(build("alltoall_allpairs", {"ranks": "2"})).plan

    def body(world: Communicator) -> None:
        raising(CollectiveError, "is for 3 ranks, but 2 are here", lambda: world.run(ring, np.zeros(3)))
        raising(CollectiveError, "cannot be cut so", lambda: world.run(pairs, np.zeros(3), np.zeros(3)))
        given, small, other = np.zeros(4), np.zeros(2), np.zeros(4, np.int64)
        raising(CollectiveError, "bytes, but", lambda: world.run(pairs, given, small))
        raising(CollectiveError, "bytes, but", lambda: world.trace(pairs, given, small))
        raising(CollectiveError, "of one type", lambda: world.run(pairs, given, other))
        raising(CollectiveError, "of one type", lambda: world.trace(pairs, given, other))

    on_ranks(2, body)


def test_sizes_of_tensors_are_checked_too() -> None:
    torch = pytest.importorskip("torch")
    pairs = compile_program(build("alltoall_allpairs", {"ranks": "2"})).plan

    def body(world: Communicator) -> None:
        given, small = torch.zeros(4), torch.zeros(2)
        raising(CollectiveError, "bytes, but", lambda: world.run(pairs, given, small))
        raising(CollectiveError, "bytes, but", lambda: world.all_reduce(given, small))
        raising(CollectiveError, "in order", lambda: world.all_reduce(torch.zeros(4, 4).t()))
        whole = torch.zeros(6)
        raising(CollectiveError, "overlap", lambda: world.all_reduce(whole[:4], whole[2:]))

    on_ranks(2, body)


def test_a_closed_communicator() -> None:
    def body(world: Communicator) -> None:
        data = np.ones(3)
        world.all_reduce(data)
        world.close()
        world.close()
        raising(RunError, "closed", lambda: world.all_reduce(data))
        raising(RunError, "closed", lambda: world.all_reduce(data, wait=False))
        raising(RunError, "closed", lambda: world.all_reduce(np.ones(17)))
        raising(RunError, "closed", lambda: world.broadcast(data))
        raising(RunError, "closed", lambda: world.barrier())
        raising(RunError, "closed", lambda: world.send(data, 1 - world.rank))
        assert data.tolist() == [2.0] * 3

    on_ranks(2, body)


def test_a_child_that_was_forked_off() -> None:
    """It may neither use nor disturb the communicator of its parent, nor hang when it drops it."""
    found = on_ranks(2, fork_and_use, kind="processes", settings=Settings(workers=2, timeout=20))
    assert found == [("this communicator belongs to the parent process", 8.0)] * 2


def fork_and_use(world: Communicator) -> tuple[str, float]:
    data = np.ones(1)
    world.all_reduce(data)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            world.all_reduce(data)
            said = b"no error"
        except RunError as error:
            said = str(error).partition(";")[0].encode()
        del world
        os.write(writer, said)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    world.all_reduce(data)
    world.all_reduce(data)
    return said.decode(), float(data[0])


def overlapping(world: Communicator) -> None:
    whole = np.zeros(6)
    world.all_reduce(whole[:4], whole[2:])
