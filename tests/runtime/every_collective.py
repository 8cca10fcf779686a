"""Every collective of a communicator, on numbers whose results are known in closed form and exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hemiola import Communicator

LARGE = 1 << 18
Values = npt.NDArray[np.float32]


def values(rank: int, length: int, salt: int = 0) -> Values:
    """What a rank has: small whole numbers, so that sums are exact; no two ranks have the same."""
    return ((np.arange(length) * 7 + 13 * rank + salt) % 23).astype(np.float32)


def block(source: int, target: int, length: int) -> Values:
    """What one rank has for another."""
    return values(source, length, salt=5 * target + 1)


def check_all_reduce(group: Communicator, length: int) -> None:
    """In place and out of place, several operators."""
    ranks = range(group.world_size)
    stacked = np.stack([values(rank, length) for rank in ranks])
    for op, expected in (("sum", stacked.sum(0)), ("max", stacked.max(0)), ("min", stacked.min(0))):
        array = values(group.rank, length)
        group.all_reduce(array, op=op)
        np.testing.assert_array_equal(array, expected)
    given, taken = values(group.rank, length), np.full(length, -1, np.float32)
    group.all_reduce(given, taken)
    np.testing.assert_array_equal(taken, stacked.sum(0))
    np.testing.assert_array_equal(given, values(group.rank, length))


def check_all_gather(group: Communicator, length: int) -> None:
    """Every rank's array, on every rank."""
    taken = np.full(group.world_size * length, -1, np.float32)
    group.all_gather(values(group.rank, length), taken)
    np.testing.assert_array_equal(
        taken, np.concatenate([values(rank, length) for rank in range(group.world_size)])
    )


def check_reduce_scatter(group: Communicator, length: int) -> None:
    """A share of the sum to each."""
    given = np.concatenate([block(group.rank, target, length) for target in range(group.world_size)])
    taken = np.full(length, -1, np.float32)
    group.reduce_scatter(given, taken)
    np.testing.assert_array_equal(
        taken, sum(block(source, group.rank, length) for source in range(group.world_size))
    )


def check_all_to_all(group: Communicator, length: int) -> None:
    """Equal shares."""
    ranks = range(group.world_size)
    given = np.concatenate([block(group.rank, target, length) for target in ranks])
    taken = np.full(given.size, -1, np.float32)
    group.all_to_all(given, taken)
    np.testing.assert_array_equal(
        taken, np.concatenate([block(source, group.rank, length) for source in ranks])
    )


def check_uneven_all_to_all(group: Communicator, length: int) -> None:
    """Shares that differ, some of them empty: rank s has length * ((s + 2 t) % 3) elements for rank t."""
    ranks = range(group.world_size)
    sent = [length * ((group.rank + 2 * target) % 3) for target in ranks]
    received = [length * ((source + 2 * group.rank) % 3) for source in ranks]
    given = np.concatenate([block(group.rank, target, sent[target]) for target in ranks])
    taken = np.full(sum(received), -1, np.float32)
    group.all_to_all(given, taken, input_lengths=sent, output_lengths=received)
    np.testing.assert_array_equal(
        taken, np.concatenate([block(source, group.rank, received[source]) for source in ranks])
    )


def check_broadcast(group: Communicator, length: int) -> None:
    """From every root; large ones from the last."""
    first = 0 if length < LARGE else group.world_size - 1
    for root in range(first, group.world_size):
        array = values(group.rank, length)
        group.broadcast(array, root=root)
        np.testing.assert_array_equal(array, values(root, length))


def check_reduce(group: Communicator, length: int) -> None:
    """To the last rank."""
    root = group.world_size - 1
    taken = np.full(length, -1, np.float32)
    group.reduce(values(group.rank, length), taken, root=root)
    if group.rank == root:
        np.testing.assert_array_equal(taken, sum(values(rank, length) for rank in range(group.world_size)))


def check_gather_and_scatter(group: Communicator, length: int) -> None:
    """Everything to the last rank, and back again."""
    root = group.world_size - 1
    whole = np.full(group.world_size * length, -1, np.float32) if group.rank == root else None
    group.gather(values(group.rank, length), whole, root=root)
    if whole is not None:
        expected = np.concatenate([values(rank, length) for rank in range(group.world_size)])
        np.testing.assert_array_equal(whole, expected)
    taken = np.full(length, -1, np.float32)
    group.scatter(whole, taken, root=root)
    np.testing.assert_array_equal(taken, values(group.rank, length))


def check_send_and_recv(group: Communicator, length: int) -> None:
    """Around in a circle, all at once."""
    after, before = (group.rank + 1) % group.world_size, (group.rank - 1) % group.world_size
    taken = np.full(length, -1, np.float32)
    sending = group.send(values(group.rank, length), after, wait=False)
    group.recv(taken, before)
    assert sending is not None
    sending.wait(60)
    np.testing.assert_array_equal(taken, values(before, length))


CHECKS: tuple[Callable[[Communicator, int], None], ...] = (
    check_all_reduce,
    check_all_gather,
    check_reduce_scatter,
    check_all_to_all,
    check_uneven_all_to_all,
    check_broadcast,
    check_reduce,
    check_gather_and_scatter,
    check_send_and_recv,
)
"""Each takes a group and the length of a rank's array."""


def check_every_collective(group: Communicator, length: int) -> None:
    """All of them, one after another, and a barrier."""
    for check in CHECKS:
        check(group, length)
    group.barrier()
