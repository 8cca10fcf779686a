"""Steps in closed form: the published model of reduction programs, and what must hold between steps."""

from __future__ import annotations

import pytest

from cost.bound_systems import GB, two_levels
from hemiola.collectives import AllGather, AllReduce, Broadcast, Collective, Reduce, ReduceScatter
from hemiola.cost.bounds.lower_bound import lower_bound
from hemiola.cost.estimates.steps import Hosts, Step, Where, program_seconds, step_seconds
from hemiola.errors import CollectiveError

FLAT = (Step("allreduce", "flat"),)
SCATTERED = (Step("reducescatter", "inside"), Step("allreduce", "across"), Step("allgather", "inside"))
TWICE = (Step("allreduce", "inside"), Step("allreduce", "across"))
MASTERS = (Step("reduce", "inside"), Step("allreduce", "masters"), Step("broadcast", "inside"))


def machine(hosts: int, devices: int, sharing: int = 1) -> Hosts:
    return Hosts(hosts, devices, 8 * GB, 270 * GB, sharing)


@pytest.mark.parametrize(
    ("hosts", "devices", "sharing", "flat", "scattered", "twice", "masters"),
    [
        (2, 16, 1, 1.04, 0.57, 8.62, 0.57),
        (2, 2, 8, 6.44, 4.31, 8.61, 4.33),
        (2, 4, 4, 3.76, 2.17, 8.61, 2.18),
        (4, 4, 4, 8.05, 6.49, 25.8, 6.51),
        (4, 16, 1, 2.11, 1.67, 25.8, 1.67),
    ],
)
def test_model_table_within_two_percent(
    hosts: int, devices: int, sharing: int, flat: float, scattered: float, twice: float, masters: float
) -> None:
    """NIC 8 GB/s, inside 270 GB/s, 2^29 N floats in every device; seconds."""
    num_bytes = 2.0**29 * hosts * 4
    expected = {FLAT: flat, SCATTERED: scattered, TWICE: twice, MASTERS: masters}
    for program, seconds in expected.items():
        found = program_seconds(program, num_bytes, machine(hosts, devices, sharing))
        assert found == pytest.approx(seconds, rel=0.02)


def test_hierarchy_gains_what_the_closed_form_says() -> None:
    """(N G - 1) / (G (N - 1)) where nothing but the NIC takes time."""
    for hosts, devices in ((2, 16), (4, 8), (8, 4)):
        fast = Hosts(hosts, devices, GB, 1e6 * GB)
        gain = program_seconds(FLAT, 1e9, fast) / program_seconds(SCATTERED, 1e9, fast)
        assert gain == pytest.approx((hosts * devices - 1) / (devices * (hosts - 1)), rel=1e-3)


@pytest.mark.parametrize("kind", ["allreduce", "reducescatter", "allgather", "reduce", "broadcast"])
@pytest.mark.parametrize(("hosts", "devices"), [(1, 4), (2, 4), (4, 2), (3, 1)])
def test_no_step_is_below_the_bound(kind: str, hosts: int, devices: int) -> None:
    makers = {
        "allreduce": AllReduce, "reducescatter": ReduceScatter, "allgather": AllGather,
        "reduce": Reduce, "broadcast": Broadcast,
    }  # fmt: skip
    n, num_bytes = hosts * devices, 1 << 20
    collective: Collective = makers[kind](n)
    bound = lower_bound(collective, num_bytes, two_levels(hosts, devices, 8 * GB, 270 * GB)).seconds
    assert step_seconds(Step(kind, "flat"), num_bytes, machine(hosts, devices)) >= bound * (1 - 1e-12)


@pytest.mark.parametrize("where", ["inside", "across", "masters", "flat"])
def test_sharing_costs_only_at_the_nic(where: Where) -> None:
    step = Step("allreduce", where)
    alone, shared = (step_seconds(step, 1e9, machine(4, 4, sharing)) for sharing in (1, 4))
    assert shared == pytest.approx(alone * (1 if where == "inside" else 4))


def test_a_step_of_another_kind_is_refused() -> None:
    with pytest.raises(CollectiveError, match="not 'alltoall'"):
        step_seconds(Step("alltoall", "inside"), 1.0, machine(2, 2))
