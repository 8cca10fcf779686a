"""Steps: how long one collective takes over groups of devices, in closed form, on hosts that are all alike.

A reduction program is a list of steps, each one collective over disjoint groups at once, each waiting for the one before.
On N hosts of G devices, a group is all devices inside its host, or one device of each host, or all of both. With B bytes
in every member, a ring or its like sends and receives per member, or through the NIC of a host that it crosses:

| collective | inside or across, n members | flat, N G members, per NIC |
|---|---|---|
| allreduce | 2 (n - 1) / n B | 2 (N G - 1) / (N G) B |
| reducescatter | (n - 1) / n B | (N G - 1) / (N G) B |
| allgather | (n - 1) B | (N G - 1) B |
| reduce, broadcast | B | B |

B is the input of a member. Inside a host every device has a link of its own. Across hosts, all groups that run at once
share the NIC: one group for every device of a host that takes part, times the groups of other axis coordinates that run the
same program at the same time (``sharing``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hemiola.errors import CollectiveError

Where = Literal["inside", "across", "masters", "flat"]
"""All devices of a host; the devices of equal place; only the first device of each host; all devices."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Hosts that are all alike, with one group of devices in each."""

    num_hosts: int
    devices_per_host: int
    """Of the group."""
    nic_bandwidth: float
    """Bytes per second of a host, each way."""
    device_bandwidth: float
    """Bytes per second of a device inside its host, each way."""
    sharing: int = 1
    """Groups of a host that run the same program at the same time."""


@dataclass(frozen=True, slots=True)
class Step:
    """One collective over groups."""

    kind: str
    where: Where


def traffic(kind: str, members: int) -> Fraction:
    """What the busiest member of a group sends or receives, in inputs of a member."""
    if members == 1:
        return Fraction(0)
    match kind:
        case "allreduce":
            return Fraction(2 * (members - 1), members)
        case "reducescatter":
            return Fraction(members - 1, members)
        case "allgather":
            return Fraction(members - 1)
        case "reduce" | "broadcast":
            return Fraction(1)
    raise CollectiveError(
        f"a step is an allreduce, reducescatter, allgather, reduce or broadcast, not {kind!r}"
    )


def held_after(kind: str, members: int) -> Fraction:
    """What a member holds after a step, in inputs; the first member, where only it holds something."""
    return {"reducescatter": Fraction(1, members), "allgather": Fraction(members)}.get(kind, Fraction(1))


def step_seconds(step: Step, num_bytes: float, hosts: Hosts) -> float:
    """The time of one step on ``num_bytes`` in every member."""
    if step.where == "inside":
        return float(traffic(step.kind, hosts.devices_per_host)) * num_bytes / hosts.device_bandwidth
    if step.where == "flat":
        members, groups = hosts.num_hosts * hosts.devices_per_host, 1
    else:
        members, groups = hosts.num_hosts, 1 if step.where == "masters" else hosts.devices_per_host
    passing = float(traffic(step.kind, members)) * num_bytes
    through_nic = passing * groups * hosts.sharing / hosts.nic_bandwidth if hosts.num_hosts > 1 else 0.0
    return max(through_nic, passing / hosts.device_bandwidth)


def program_seconds(steps: Sequence[Step], num_bytes: float, hosts: Hosts) -> float:
    """The time of steps that wait for each other, from ``num_bytes`` in every device on."""
    total, held = 0.0, num_bytes
    for step in steps:
        total += step_seconds(step, held, hosts)
        held *= float(held_after(step.kind, _members(step, hosts)))
    return total


def _members(step: Step, hosts: Hosts) -> int:
    return {
        "inside": hosts.devices_per_host,
        "flat": hosts.num_hosts * hosts.devices_per_host,
    }.get(step.where, hosts.num_hosts)
