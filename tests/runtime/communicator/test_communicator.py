"""Communicator: every collective, several groups at once, and ranks that disagree or do not come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hemiola.algorithms.library import build
from hemiola.compiler.compile import compile_program
from hemiola.errors import HemiolaError, MismatchError, PeerLostError
from hemiola.runtime.bootstrap.store import LocalStore, Store
from hemiola.runtime.communicator.communicator import Communicator
from hemiola.runtime.launch import run_ranks
from hemiola.runtime.settings import Settings
from runtime.worlds import TIMEOUT, call_and_meet, on_ranks, ones


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
@pytest.mark.parametrize("num_ranks", [1, 2, 3])
def test_all_of_them(num_ranks: int, size: int) -> None:
    def body(world: Communicator) -> dict[str, bool]:
        ranks, me = range(world.world_size), world.rank
        mine = np.arange(size) + 100.0 * me
        every = [np.arange(size) + 100.0 * rank for rank in ranks]
        wide = np.concatenate([mine + 10_000 * to for to in ranks])
        right = {}

        output = np.full(size, -1.0)
        world.all_reduce(mine, output)
        right["all_reduce"] = bool((output == sum(every)).all())

        gathered = np.full(size * len(ranks), -1.0)
        world.all_gather(mine, gathered)
        right["all_gather"] = bool((gathered == np.concatenate(every)).all())

        world.reduce_scatter(wide, output)
        right["reduce_scatter"] = bool((output == sum(every) + len(ranks) * 10_000 * me).all())

        world.all_to_all(wide, gathered)
        right["all_to_all"] = bool((gathered == np.concatenate(every) + 10_000 * me).all())

        for root in {0, len(ranks) - 1}:
            data = mine.copy()
            world.broadcast(data, root=root)
            right[f"broadcast {root}"] = bool((data == every[root]).all())

            world.reduce(mine, output, root=root, op="max")
            right[f"reduce {root}"] = me != root or bool((output == every[-1]).all())

            gathered[:] = -1
            world.gather(mine, gathered if me == root else None, root=root)
            right[f"gather {root}"] = me != root or bool((gathered == np.concatenate(every)).all())

            world.scatter(wide if me == root else None, output, root=root)
            right[f"scatter {root}"] = bool((output == every[root] + 10_000 * me).all())
        world.barrier()
        return right

    for found in on_ranks(num_ranks, body):
        assert all(found.values()), found


def test_in_place() -> None:
    def body(world: Communicator) -> dict[str, Any]:
        me, right = world.rank, {}
        data = ones(world)
        world.all_reduce(data, data)
        right["all_reduce"] = data.tolist() == [6.0] * 5

        wide = np.zeros(15)
        own = wide[5 * me : 5 * me + 5]
        own[:] = me + 1
        world.all_gather(own, wide)
        right["all_gather"] = wide.tolist() == [1.0] * 5 + [2.0] * 5 + [3.0] * 5

        wide[:] = me + 1
        world.reduce_scatter(wide, own)
        right["reduce_scatter"] = own.tolist() == [6.0] * 5

        wide[:] = np.repeat([10.0, 20.0, 30.0], 5) + me
        world.all_to_all(wide, wide)
        right["all_to_all"] = wide.tolist() == (np.repeat([0.0, 1.0, 2.0], 5) + 10 * (me + 1)).tolist()

        data = ones(world)
        world.reduce(data, root=2)
        right["reduce"] = me != 2 or data.tolist() == [6.0] * 5
        return right

    for found in on_ranks(3, body):
        assert all(found.values()), found


@pytest.mark.parametrize("given_lengths", ["both", "input", "output"])
def test_uneven_all_to_all(given_lengths: str) -> None:
    """Rank a sends (a + 1) * b + a elements to rank b; where all are equal, one side's lengths are enough."""

    def body(world: Communicator) -> bool:
        me, ranks = world.rank, range(world.world_size)
        lengths = [[(a + 1) * b + a if given_lengths == "both" else 4 for b in ranks] for a in ranks]
        sends, receives = lengths[me], [lengths[a][me] for a in ranks]
        given = np.concatenate([np.full(n, 10 * me + b) for b, n in enumerate(sends)])
        output = np.full(sum(receives), -1)
        world.all_to_all(
            given,
            output,
            input_lengths=sends if given_lengths != "output" else None,
            output_lengths=receives if given_lengths != "input" else None,
        )
        expected = np.concatenate([np.full(n, 10 * a + me) for a, n in enumerate(receives)])
        return bool((output == expected).all())

    assert on_ranks(3, body) == [True] * 3


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_send_and_recv(kind: Any) -> None:
    assert on_ranks(3, pass_round, kind=kind) == [(2, [2.0] * 4), (0, [0.0] * 4), (1, [1.0] * 4)]


def test_messages_of_one_tag_keep_their_order_and_tags_do_not_mix() -> None:
    def body(world: Communicator) -> list[int]:
        got = [np.zeros(1, np.int64) for _ in range(20)]
        if world.rank == 0:
            handles = [world.send(np.array([k]), 1, tag=k % 2, wait=False) for k in range(20)]
        else:
            odd_first = [*range(1, 20, 2), *range(0, 20, 2)]
            handles = [world.recv(got[k], 0, tag=k % 2, wait=False) for k in odd_first]
        for handle in handles:
            assert handle is not None
            handle.wait(TIMEOUT)
        return [int(one[0]) for one in got]

    assert on_ranks(2, body)[1] == list(range(20))


def pass_round(world: Communicator) -> tuple[int, list[float]]:
    before, after = (world.rank - 1) % world.world_size, (world.rank + 1) % world.world_size
    sent = world.send(np.full(4, float(world.rank)), after, wait=False)
    got = np.zeros(4)
    world.recv(got, before)
    assert sent is not None
    sent.wait(TIMEOUT)
    return before, got.tolist()


def test_in_flight_at_once_from_threads() -> None:
    num_groups = 4

    def body(rank: int, store: Store) -> list[list[float]]:
        worlds = [Communicator(rank, 2, store=store, name=f"group{k}") for k in range(num_groups)]
        data = [np.full(20_000, float(k + 1)) for k in range(num_groups)]

        def use(k: int) -> None:
            for _ in range(10):
                worlds[k].all_reduce(data[k])
                worlds[k].all_reduce(data[k], op="avg", wait=False)
            worlds[k].barrier()

        # The ranks go through their groups in opposite orders.
        threads = [threading.Thread(target=use, args=(k,)) for k in range(num_groups)]
        for thread in threads if rank == 0 else reversed(threads):
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
        for world in worlds:
            world.close()
        return [[one.min(), one.max()] for one in data]

    expected = [[(k + 1) * 1024.0] * 2 for k in range(num_groups)]
    assert run_ranks(2, body, timeout=TIMEOUT) == [expected] * 2


def test_handles_of_several_groups_end_in_any_order() -> None:
    def body(rank: int, store: Store) -> list[float]:
        one, other = (Communicator(rank, 2, store=store, name=name) for name in ("one", "other"))
        a, b = np.ones(10), np.ones(10)
        order = [(one, a), (other, b)] if rank == 0 else [(other, b), (one, a)]
        handles = [world.all_reduce(data, wait=False) for world, data in order]
        for handle in handles:
            assert handle is not None
            handle.wait(TIMEOUT)
        one.close()
        other.close()
        return [a[0], b[0]]

    assert run_ranks(2, body, timeout=TIMEOUT) == [[2.0, 2.0]] * 2


def test_of_one_name_one_after_another() -> None:
    def body(rank: int, store: Store) -> list[float]:
        found = []
        for _ in range(5):
            with Communicator(rank, 3, store=store) as world:
                data = ones(world, 1)
                world.all_reduce(data)
                found += data.tolist()
        return found

    assert run_ranks(3, body, timeout=TIMEOUT) == [[6.0] * 5] * 3


def test_alone() -> None:
    with Communicator(0, 1, store=LocalStore()) as world:
        data = np.arange(5.0)
        world.all_reduce(data, op="avg")
        world.barrier()
        gathered = np.zeros(5)
        world.all_gather(data, gathered)
        assert data.tolist() == gathered.tolist() == [0, 1, 2, 3, 4]
        assert world.hosts == (0,)


@pytest.mark.parametrize(
    "calls",
    [
        (lambda w: w.all_reduce(np.ones(4)), lambda w: w.all_reduce(np.ones(5))),
        (lambda w: w.all_reduce(np.ones(4)), lambda w: w.all_reduce(np.ones(4, np.int64))),
        (lambda w: w.all_reduce(np.ones(4)), lambda w: w.all_reduce(np.ones(4), op="max")),
        (lambda w: w.all_reduce(np.ones(4)), lambda w: w.broadcast(np.ones(4))),
        (lambda w: w.all_reduce(np.ones(4)), lambda w: w.all_reduce(np.ones(4), np.zeros(4))),
        (lambda w: w.all_reduce(np.ones(4)), lambda w: w.barrier()),
        (lambda w: w.broadcast(np.ones(4), root=0), lambda w: w.broadcast(np.ones(4), root=1)),
        (
            lambda w: w.all_gather(np.ones(4), np.ones(8)),
            lambda w: w.reduce_scatter(np.ones(8), np.ones(4)),
        ),
    ],
)
def test_different_calls(calls: tuple[Callable[[Communicator], Any], ...]) -> None:
    def body(world: Communicator) -> str:
        try:
            call_and_meet(world, calls[world.rank])
        except HemiolaError as error:
            return type(error).__name__
        return "no error"

    assert on_ranks(2, body, settings=Settings(timeout=20)) == ["MismatchError"] * 2


def test_different_plans_for_the_same_call() -> None:
    """What the ranks run has the same name and sizes; its digest tells."""
    plans = [
        compile_program(build("allreduce_ring", {"ranks": "2", "in-place": "true", "instances": text})).plan
        for text in ("1", "2")
    ]

    def body(world: Communicator) -> str:
        with pytest.raises(MismatchError) as caught:
            call_and_meet(world, lambda _: world.run(plans[world.rank], np.ones(16)))
        return str(caught.value)

    for sentence in on_ranks(2, body, settings=Settings(timeout=20)):
        assert "allreduce_ring" in sentence


def test_uneven_lengths_that_do_not_agree() -> None:
    def body(world: Communicator) -> str:
        # Rank 1 sends four elements to rank 0, which expects five.
        sends, receives = [([2, 3], [2, 5]), ([4, 1], [3, 1])][world.rank]
        given, taken = np.ones(sum(sends)), np.ones(sum(receives))
        with pytest.raises(MismatchError) as caught:
            call_and_meet(
                world, lambda _: world.all_to_all(given, taken, input_lengths=sends, output_lengths=receives)
            )
        return str(caught.value)

    for sentence in on_ranks(2, body, settings=Settings(timeout=20)):
        assert "it has 32 bytes where 40 were expected" in sentence


def test_send_and_recv_of_different_sizes() -> None:
    def body(world: Communicator) -> str:
        try:
            for number in range(3):
                if world.rank == 0:
                    world.send(np.ones(4), 1)
                else:
                    world.recv(np.ones(4 + number // 2), 0)
        except HemiolaError as error:
            return type(error).__name__
        return "no error"

    assert on_ranks(2, body, settings=Settings(timeout=5))[1] == "MismatchError"


def test_the_rank_that_does_not_come_is_named() -> None:
    def body(world: Communicator) -> tuple[str, int | None]:
        if world.rank == 1:
            time.sleep(1.5)
        try:
            world.all_reduce(np.ones(4))
        except PeerLostError as error:
            return str(error), error.rank
        return "no error", None

    found = on_ranks(3, body, settings=Settings(timeout=0.5))
    for sentence, rank in found:
        assert rank == 1
        assert "rank 1 did not answer within 0.5 s in call 1 (allreduce" in sentence


def test_the_rank_that_has_closed_is_named() -> None:
    def body(world: Communicator) -> str:
        if world.rank == 2:
            return ""
        with pytest.raises(PeerLostError) as caught:
            world.all_reduce(np.ones(4))
        assert caught.value.rank == 2
        return str(caught.value)

    assert all("rank 2 has closed its communicator" in one for one in on_ranks(3, body)[:2])


def test_after_a_failure_every_call_says_so_and_a_new_communicator_works() -> None:
    def body(rank: int, store: Store) -> list[float]:
        with Communicator(rank, 2, store=store, timeout=20) as world:
            with pytest.raises(MismatchError):
                world.all_reduce(np.ones(4 + rank))
            with pytest.raises(MismatchError):
                world.all_reduce(np.ones(4))
        with Communicator(rank, 2, store=store, name="again") as world:
            data = np.ones(2)
            world.all_reduce(data)
        return data.tolist()

    assert run_ranks(2, body, timeout=TIMEOUT) == [[2.0, 2.0]] * 2
