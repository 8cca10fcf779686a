"""Links over TCP on loopback: ranks of one machine that are told that they are on different hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from hemiola.runtime.launch import run_ranks
from runtime import tcp_ranks
from untrusted_peers import ATTACKS

T = TypeVar("T")

SECONDS = 120.0

TWO_HOSTS = (0, 0, 1, 1)
THREE_AND_ONE = (0, 0, 0, 1)
SCATTERED = (0, 1, 0, 1)
ALL_APART = (0, 1, 2)

PLANS = (
    "allreduce_ring",
    "allreduce_ring instances=3",
    "allreduce_hierarchical levels=2,2",
    "allreduce_hierarchical levels=2,2 inside=allpairs across=allpairs",
    "allreduce_hierarchical levels=2,2 instances=2",
    "allreduce_halving_doubling",
    "allreduce_double_binary_tree",
    "allreduce_allpairs",
)
"""On two hosts of two ranks each, all of them use shared memory and TCP at once."""


@pytest.mark.parametrize("hosts", [(0, 1), ALL_APART, TWO_HOSTS, THREE_AND_ONE, SCATTERED], ids=str)
def test_every_collective_of_every_size(hosts: tuple[int, ...]) -> None:
    run(tcp_ranks.check_collectives, hosts, (0, 1, 7, 1001, 65_537))


def test_every_collective_of_several_mib() -> None:
    run(tcp_ranks.check_collectives, (0, 1), (1_500_003,))


@pytest.mark.parametrize("hosts", [TWO_HOSTS, SCATTERED], ids=str)
def test_plans_that_use_shared_memory_and_tcp_at_once(hosts: tuple[int, ...]) -> None:
    run(tcp_ranks.run_plans, hosts, PLANS, 20_011)


@pytest.mark.parametrize("seed", range(3))
def test_many_small_calls_of_random_kinds(seed: int) -> None:
    run(tcp_ranks.call_at_random, [(0, 1), TWO_HOSTS, THREE_AND_ONE][seed], seed, 300)


@pytest.mark.parametrize("hosts", [(0, 1), TWO_HOSTS], ids=str)
def test_many_calls_in_flight_on_several_communicators(hosts: tuple[int, ...]) -> None:
    run(tcp_ranks.keep_many_in_flight, hosts, 30)


@pytest.mark.parametrize("hosts", [(0, 1), THREE_AND_ONE], ids=str)
def test_sockets_that_hold_little_only_take_longer(hosts: tuple[int, ...]) -> None:
    assert all(run(tcp_ranks.squeeze_buffers, hosts, (7, 50_001)))


def test_a_peer_that_stands_still_now_and_then_only_takes_longer() -> None:
    run(tcp_ranks.stop_now_and_then, ALL_APART, 10, 500_009)


@pytest.mark.parametrize("hosts", [(0, 1), TWO_HOSTS], ids=str)
def test_strangers_disturb_nothing(hosts: tuple[int, ...]) -> None:
    knocks = run(tcp_ranks.work_among_strangers, hosts, 3)
    assert all(number >= len(ATTACKS) for number in knocks)


def run(function: Callable[..., T], hosts: tuple[int, ...], *arguments: object) -> list[T]:
    """The function on every rank, a process each."""
    return run_ranks(len(hosts), function, hosts, *arguments, kind="processes", timeout=SECONDS)
