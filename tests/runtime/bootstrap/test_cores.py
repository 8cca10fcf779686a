"""Cores: which one a rank is pinned to, and that a large call keeps to it."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.runtime.bootstrap.cores import Core, allowed_cores, choose_cores
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.settings import Settings
from runtime.worlds import on_ranks

LARGE, SMALL = 1 << 20, 1 << 10


def mask(*cores: int) -> str:
    return f"{sum(1 << core for core in cores):x}"


def chosen(allowed: dict[int, str]) -> list[Core]:
    return [core for _, core in sorted(choose_cores(allowed).items())]


def test_the_mask_is_that_of_this_thread() -> None:
    assert allowed_cores() == mask(*os.sched_getaffinity(0))


@given(st.integers(1, 40), st.sets(st.integers(0, 300), min_size=1, max_size=20))
def test_ranks_are_spread_in_blocks(ranks: int, cores: set[int]) -> None:
    found = chosen(dict.fromkeys(range(ranks), mask(*cores)))
    numbers = [core.number for core in found]
    assert numbers == sorted(numbers)
    count = Counter(numbers)
    assert set(count) <= cores
    assert max(count.values()) == -(-ranks // len(cores))
    assert {core.num_ranks for core in found} == {max(count.values())}
    even = len(cores) > 1 and ranks > len(cores) and ranks % len(cores) == 0
    assert all(core.shared_evenly == even for core in found)
    if even:
        assert set(count) == cores
        assert len(set(count.values())) == 1


def test_ranks_with_other_cores_do_not_count() -> None:
    by_socket = {rank: mask(0, 1) if rank < 4 else mask(2, 3) for rank in range(8)}
    assert [core.number for core in chosen(by_socket)] == [0, 0, 1, 1, 2, 2, 3, 3]
    own = {rank: mask(rank) for rank in range(4)}
    assert chosen(own) == [Core(rank, num_ranks=1, shared_evenly=False) for rank in range(4)]


@pytest.fixture
def two_cores() -> Iterator[list[int]]:
    """The ranks started meanwhile have two cores, on any machine that has them."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("this needs two cores")
    some = sorted(before)[:2]
    os.sched_setaffinity(0, some)
    yield some
    os.sched_setaffinity(0, before)


def say_cores(world: Communicator) -> set[int]:
    world.barrier()
    return os.sched_getaffinity(0)


def test_pinned_for_good(two_cores: list[int]) -> None:
    first, second = two_cores
    for ranks, expected in (2, [{first}, {second}]), (4, [{first}, {first}, {second}, {second}]):
        assert on_ranks(ranks, say_cores, kind="processes", settings=Settings(pin="always")) == expected


class Watcher:
    """Looks from another thread where this one may run, until it is told to stop."""

    def __init__(self) -> None:
        self._watched, self._over = threading.get_native_id(), threading.Event()
        self.seen: set[frozenset[int]] = set()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.is_set():
            self.seen.add(frozenset(os.sched_getaffinity(self._watched)))

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join()


def watch_calls(
    world: Communicator, elements: int, uneven: bool, times: int
) -> tuple[set[frozenset[int]], set[int]]:
    """Where a thread could run during calls, and where it can run afterwards."""
    given, taken = (np.ones(elements * world.world_size, np.float32) for _ in range(2))
    lengths = [elements] * world.world_size if uneven else None
    watcher = Watcher()
    for _ in range(times):
        world.all_to_all(given, taken, input_lengths=lengths, output_lengths=lengths)
    watcher.stop()
    assert (taken == 1).all()
    return watcher.seen, os.sched_getaffinity(0)


@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
def test_large_calls_keep_neighbours_on_a_core_and_let_them_go(two_cores: list[int], uneven: bool) -> None:
    found = on_ranks(4, watch_calls, LARGE, uneven, 30, kind="processes")
    for rank, (seen, after) in enumerate(found):
        assert frozenset({two_cores[rank // 2]}) in seen
        assert seen <= {frozenset({two_cores[rank // 2]}), frozenset(two_cores)}
        assert after == set(two_cores)


@pytest.mark.parametrize(
    ("ranks", "elements", "settings"),
    [
        (4, LARGE, Settings(pin="never")),
        (4, SMALL, Settings()),
        (2, LARGE, Settings()),
        (3, LARGE, Settings()),
        (4, LARGE, Settings(workers=2)),
    ],
    ids=["never", "small", "a core each", "uneven", "several workers"],
)
def test_other_calls_run_anywhere(
    two_cores: list[int], ranks: int, elements: int, settings: Settings
) -> None:
    for seen, after in on_ranks(ranks, watch_calls, elements, False, 10, kind="processes", settings=settings):
        assert seen <= {frozenset(two_cores)}
        assert after == set(two_cores)
