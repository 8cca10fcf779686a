"""Closed forms of Gloo's steps against a list of the messages that Gloo sends."""

from __future__ import annotations

from collections import defaultdict
from math import inf, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemiola.cost.estimates.gloo_steps import GlooClock
from hemiola.cost.estimates.grouped_steps import GroupedStep
from hemiola.topology.system import Compute, Level, Link, System

NUM_BYTES = 1e6
BANDWIDTH = 1e9
counts_of_units = st.integers(1, 8)
Message = tuple[int, int, float]


def machine(*counts: int, copies: float = inf) -> System:
    """Levels that are all alike, of which the last is inside of hosts."""
    names = ["rack", "host", "rank"][-len(counts) :]
    levels = [
        Level(name, count, Link(BANDWIDTH, BANDWIDTH)) for name, count in zip(names, counts, strict=True)
    ]
    return System("a machine", tuple(levels), compute=Compute(host_copy_bandwidth=copies))


def ring(n: int, amount: float) -> list[Message]:
    return [(one, (one + 1) % n, amount) for one in range(n)]


def messages(kind: str, n: int) -> list[Message]:
    """Sender, receiver and bytes of every message of a group of n."""
    match kind:
        case "allreduce" | "reducescatter":
            return ring(n, 2 * (n - 1) / n * NUM_BYTES)
        case "allgather":
            return ring(n, (n - 1) * NUM_BYTES)
        case "reduce":
            return ring(n, (n - 1) / n * NUM_BYTES) + [(one, 0, NUM_BYTES / n) for one in range(1, n)]
    return [(one ^ (1 << (one.bit_length() - 1)), one, NUM_BYTES) for one in range(1, n)]


def busiest(kind: str, counts: tuple[int, ...]) -> float:
    """Seconds of the busiest link, over all levels and both directions."""
    n = prod(counts)
    sent: defaultdict[tuple[int, int, str], float] = defaultdict(float)
    for source, target, amount in messages(kind, n):
        for level in range(len(counts)):
            inside = prod(counts[level + 1 :])
            if source // inside != target // inside:
                sent[level, source // inside, "out"] += amount
                sent[level, target // inside, "in"] += amount
    return max(sent.values(), default=0.0) / BANDWIDTH


@given(
    st.tuples(counts_of_units, counts_of_units, counts_of_units),
    st.sampled_from(["allreduce", "reducescatter", "allgather", "reduce", "broadcast"]),
)
def test_the_busiest_link_is_that_of_the_messages(counts: tuple[int, ...], kind: str) -> None:
    step = GroupedStep(kind, 0, len(counts))
    found = GlooClock(machine(*counts)).time(step, NUM_BYTES)
    assert found.seconds == pytest.approx(busiest(kind, counts))


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [("allreduce", 6), ("reducescatter", 6), ("allgather", 12), ("reduce", 3.75), ("broadcast", 3)],
)
def test_every_message_is_copied_once(kind: str, inputs: float) -> None:
    """Two hosts of four ranks, each a group: the cores of a host have the messages of one group."""
    found = GlooClock(machine(2, 4, copies=1e6)).time(GroupedStep(kind, 1, 2), NUM_BYTES)
    assert found.seconds == pytest.approx(inputs * NUM_BYTES / 1e6)
