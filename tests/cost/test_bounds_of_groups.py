"""Bounds of groups that run at once: sums over the groups, however they are counted."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.collectives import Collective, CollectiveKind
from hemiola.cost.bounds.cut_traffic import Parts, cut_traffic
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.placement.requests import find_request
from hemiola.topology.system import Level, Link, System
from hemiola.tuning.candidate_space import CandidateSpace

KINDS = (
    CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER, CollectiveKind.REDUCESCATTER, CollectiveKind.ALLTOALL,
    CollectiveKind.BROADCAST, CollectiveKind.ALLTONEXT,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    hosts=st.integers(2, 4),
    devices=st.sampled_from([2, 4, 6]),
    size=st.sampled_from([2, 3, 4]),
    seed=st.integers(0, 1000),
)
def test_nics_carry_what_all_groups_send_out_of_their_hosts(
    kind: CollectiveKind, hosts: int, devices: int, size: int, seed: int
) -> None:
    """With fast links inside, the bound is what leaves or enters some host, or all hosts together, summed over the groups."""
    system = System("nics", (Level("host", hosts, Link(1e9, 1e9)), Level("gpu", devices, Link(1e15, 1e15))))
    order = np.random.default_rng(seed).permutation(prod((hosts, devices)))
    groups = np.sort(order[: len(order) // size * size].reshape(-1, size), axis=1)
    collective, num_bytes = Collective(kind, size), 1 << 24
    enters, leaves, received, sent = np.zeros(hosts), np.zeros(hosts), 0.0, 0.0
    for group in groups:
        there, inverse = np.unique(group // devices, return_inverse=True)
        own = cut_traffic(collective, num_bytes, Parts.of(inverse))
        for number, host in enumerate(there):
            enters[host] += own.enters[number]
            leaves[host] += own.leaves[number]
        received, sent = received + own.received, sent + own.sent
    used = len(np.unique(groups // devices))
    expected = max(enters.max(), leaves.max(), received / used, sent / used) / 1e9
    found = lower_bound(collective, num_bytes, system, groups=groups).seconds
    # What the links inside need is a millionth of it.
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("over", ["data", "model"])
def test_no_plan_of_groups_beats_the_bound(kind: CollectiveKind, over: str) -> None:
    request = find_request(kind, "dgx-a100:2", axes="data=4,model=4", over=over)
    bound = lower_bound(request.collective, 1 << 24, request.system, groups=request.table).seconds
    space = CandidateSpace(request)
    for candidate in space.candidates[:12]:
        assert replay_seconds(space.plan(candidate), 1 << 24, request) >= bound * (1 - 1e-9)


def test_one_group_of_all_devices_is_the_whole_system() -> None:
    request = CollectiveRequest.of_system(
        CollectiveKind.ALLREDUCE, find_request(KINDS[0], "dgx-a100:2").system
    )
    whole = lower_bound(request.collective, 1 << 20, request.system)
    assert lower_bound(request.collective, 1 << 20, request.system, groups=request.table) == whole
