"""analytic: closed forms of the replay for searches, on uniform systems without limits on computing.

A message of m bytes takes a hop of ``step_seconds`` + m / bandwidth + latency. Where every step waits for
the one before it (rings, and the phases of a hierarchy), hops add up, tile by tile. Where messages follow
each other (chains, trees, exchanges of all pairs), the first takes its hops, and every other one comes a
period later: the time on the narrowest link, or what the slots of a connection allow.

The forms agree with the replay within 1 %; where they would not, there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hemiola.ir.plan import Plan
from hemiola.simulator.runtimes.hemiola import HEMIOLA
from hemiola.simulator.runtimes.runtime_model import RuntimeModel
from hemiola.topology.system import Compute, ProtocolCosts, System

DOMINATED = 0.5
"""How near a second reason may come to the longest, so that the two do not add up."""


NEGLIGIBLE = 0.005


@dataclass(frozen=True, slots=True)
class Hop:
    """From one rank to another, with what all that send at once leave to each."""

    bandwidth: float
    latency: float
    step_seconds: float

    def seconds(self, num_bytes: float) -> float:
        """Of one message."""
        return self.step_seconds + num_bytes / self.bandwidth + self.latency

    def period(self, num_bytes: float) -> float:
        """Between messages that follow each other while there are slots."""
        return max(num_bytes / self.bandwidth, self.step_seconds)

    def followers(self, sizes: list[float], slots: int, *, passed_on: bool) -> float:
        """What the messages of a connection take before the last, whose first is the largest.

        Slots are free again after a whole hop, and after the step of the receiver that passes data on.
        """
        rounds, rest = divmod(len(sizes) - 1, slots)
        cycle = self.seconds(sizes[0]) + (self.step_seconds if passed_on else 0.0)
        if cycle > slots * self.period(sizes[0]):
            return rounds * cycle + rest * self.period(sizes[0])
        return sum(map(self.period, sizes[:-1]))


@dataclass(frozen=True, slots=True)
class Uniform:
    """A system of equal hosts of equal devices, all behind switches that are as fast as their links."""

    num_hosts: int
    num_local: int
    device: float
    device_latency: float
    nics: int
    nic: float
    nic_latency: float
    step_seconds: float

    @property
    def num_ranks(self) -> int:
        """All devices."""
        return self.num_hosts * self.num_local

    def inside(self, users: float = 1) -> Hop:
        """Within a host, where each device sends this many messages at once."""
        return Hop(self.device / users, 2 * self.device_latency, self.step_seconds)

    def across(self, users: float = 1, nic_users: float = 1) -> Hop:
        """Between hosts, where each device and each NIC has this many users at once."""
        bandwidth = min(self.device / users, self.nic / nic_users)
        return Hop(bandwidth, 2 * (self.device_latency + self.nic_latency), self.step_seconds)


def uniform(system: System, protocol: ProtocolCosts) -> Uniform | None:
    """A system of one or two levels in the numbers of the forms, if it has that shape."""
    if not system.is_uniform or system.compute != Compute() or len(system.levels) > 2:
        return None
    if not math.isinf(protocol.threadblock_bandwidth):
        return None
    links = []
    for level in system.levels:
        if level.link is None or level.fabric.kind == "mesh" or not math.isinf(level.fabric.bandwidth):
            return None
        links.append((min(level.link.bandwidth_out, level.link.bandwidth_in), level.link))
    (device, device_link), local = links[-1], system.levels[-1].count
    device *= device_link.num * protocol.efficiency
    device_latency = device_link.latency + protocol.latency / 2  # every message crosses two links of devices
    if len(links) == 1:
        return Uniform(1, local, device, device_latency, 1, math.inf, 0.0, protocol.step_seconds)
    nic, nic_link = links[0]
    if local % nic_link.num:
        return None
    return Uniform(
        system.levels[0].count,
        local,
        device,
        device_latency,
        nic_link.num,
        nic * protocol.efficiency,
        nic_link.latency,
        protocol.step_seconds,
    )


@dataclass(frozen=True, slots=True)
class Question:
    """What a form is asked."""

    system: Uniform
    chunks: int
    tiles: list[float]
    """Bytes of a chunk in every tile."""
    slots: int


def closed_form(
    algorithm: str,
    system: System,
    plan: Plan,
    num_bytes: float,
    *,
    chunks: int = 1,
    runtime: RuntimeModel = HEMIOLA,
) -> float | None:
    """Seconds of a library algorithm on all ranks of a system; None where there is no closed form.

    ``chunks`` is the parameter of chains and trees; a hierarchy has the system's levels.
    """
    known = system.protocols.get(plan.protocol.value) or next(
        iter(system.protocols.values()), ProtocolCosts()
    )
    found = uniform(system, known)
    if found is None or algorithm not in FORMS or found.num_ranks < 2:
        return None
    tiles = runtime.tiles(plan, num_bytes, system.host_of_rank, system.compute.host_cores)
    return FORMS[algorithm](Question(found, chunks, tiles.tolist(), runtime.num_slots([plan])))


def _ring(question: Question, num_steps: int) -> float | None:
    """Every step waits for a message, and each message has gone through all hops in turn."""
    system = question.system
    if system.num_ranks < 3:
        return None  # nothing is passed on, and messages follow each other instead
    narrow = system.across() if system.num_hosts > 1 else system.inside()
    num_around = system.num_local if system.num_hosts > 1 else 1  # one of so many hops is narrow
    sizes = question.tiles
    if not sizes:
        return 0.0
    by_hops = sum(
        num_steps * (narrow.seconds(size) + (num_around - 1) * system.inside().seconds(size)) / num_around
        for size in sizes
    )
    if num_around == 1:
        return by_hops
    messages = [size for size in sizes for _ in range(num_steps)]
    by_link = narrow.followers(messages, question.slots, passed_on=True) + narrow.seconds(sizes[-1])
    if sizes[-1] < sizes[0] and num_steps * narrow.seconds(sizes[-1]) > NEGLIGIBLE * by_link:
        return None  # a last tile that is smaller has limits of its own
    return by_link if by_hops <= DOMINATED * by_link else None


def _allreduce_ring(question: Question) -> float | None:
    n = question.system.num_ranks
    return _ring(question, 2 * (n - 1))


def _allgather_ring(question: Question) -> float | None:
    return _ring(question, question.system.num_ranks - 1)


def _reducescatter_ring(question: Question) -> float | None:
    n = question.system.num_ranks
    return _ring(question, n - 1)


def _allreduce_hierarchical(question: Question) -> float | None:
    """Phases inside and across hosts follow each other, and so do tiles but for the latency between them."""
    system = question.system
    hosts, local = system.num_hosts, system.num_local
    if hosts < 3 or local < 3:
        return None
    inside, across = system.inside(), system.across(nic_users=local / system.nics)
    sizes = question.tiles
    total = sum(
        2 * (local - 1) * inside.seconds(hosts * size) + 2 * (hosts - 1) * across.seconds(size)
        for size in sizes
    )
    # The first message of a tile goes out behind the last of the one before.
    hidden = [
        inside.latency + min(hosts * size / inside.bandwidth, inside.step_seconds) for size in sizes[:-1]
    ]
    return total - sum(hidden)


def _exchange(system: Uniform) -> Hop:
    """All pairs at once: what the busiest link leaves to each message."""
    n, local = system.num_ranks, system.num_local
    if system.num_hosts == 1:
        return system.inside(users=n - 1)
    return system.across(users=n - 1, nic_users=local * (n - local) / system.nics)


def _all_pairs(question: Question) -> float | None:
    hop, sizes = _exchange(question.system), question.tiles
    if not sizes:
        return 0.0
    waits = len(sizes) > question.slots and hop.seconds(sizes[0]) > question.slots * hop.period(sizes[0])
    if waits and _is_mixed(question.system):
        return None  # while messages to other hosts wait for slots, those inside take the devices' links
    return hop.seconds(sizes[-1]) + hop.followers(sizes, question.slots, passed_on=False)


def _is_mixed(system: Uniform) -> bool:
    """Whether a device's link, and no NIC, limits messages of which some stay inside the host."""
    if system.num_hosts == 1 or system.num_local == 1:
        return False
    n, local = system.num_ranks, system.num_local
    return system.device / (n - 1) <= system.nic * system.nics / (local * (n - local))


def _pipeline(num_hops: int, hop: Hop, sizes: list[float], slots: int) -> float:
    """The largest message takes all hops but the last, then all follow each other through that."""
    if not sizes:
        return 0.0
    before = (num_hops - 1) * hop.seconds(sizes[0])
    return before + hop.followers(sizes, slots, passed_on=num_hops > 1) + hop.seconds(sizes[-1])


def _alltoall_allpairs(question: Question) -> float | None:
    return _all_pairs(question)


def _allgather_allpairs(question: Question) -> float | None:
    return _all_pairs(question)


def _allreduce_allpairs(question: Question) -> float | None:
    """Two exchanges a tile; how far latencies of tiles hide each other has no form, only two ends."""
    system = question.system
    n, hop = system.num_ranks, _exchange(system)
    if system.step_seconds > 0 and system.num_hosts > 1:
        return None
    sizes = question.tiles
    if not sizes:
        return 0.0
    # The sum goes out to the first peer, and a step later to the others; its bytes may fill that time.
    late = max(0.0, hop.step_seconds - sizes[0] / system.device) if n > 2 else 0.0
    longest = sum(2 * hop.seconds(size) + late for size in sizes)
    shortest = sum(2 * size / hop.bandwidth for size in sizes) + 2 * (hop.latency + hop.step_seconds) + late
    return (longest + shortest) / 2 if longest - shortest <= 0.015 * shortest else None


def _tree(question: Question) -> float | None:
    """Two trees with half of the data each, whose inner ranks send to two children."""
    n, slots = question.system.num_ranks, question.slots
    if question.system.num_hosts > 1 or question.system.step_seconds > 0 or n < 4 or n & (n - 1):
        return None
    tiles = question.tiles
    sizes = [size for size in tiles for _ in range(question.chunks)]
    hop = question.system.inside(users=2)
    if sizes and hop.seconds(sizes[-1]) > slots * hop.period(sizes[-1]):
        return None  # slots are the limit
    return _pipeline(n.bit_length() - 1, hop, sizes, slots)


def _chain(question: Question) -> float | None:
    system, slots = question.system, question.slots
    if system.num_hosts > 1 and system.num_local > 1:
        return None
    hop = system.across() if system.num_hosts > 1 else system.inside()
    tiles = question.tiles
    sizes = [size for size in tiles for _ in range(question.chunks)]
    if sizes and sizes[-1] < sizes[0]:
        held_up = hop.seconds(sizes[-1]) > slots * hop.period(sizes[-1])
        if held_up or hop.step_seconds > 0:
            return None  # a last tile that is smaller has limits of its own
    return _pipeline(system.num_ranks - 1, hop, sizes, slots)


FORMS: Mapping[str, Callable[[Question], float | None]] = {
    "allreduce_ring": _allreduce_ring,
    "allgather_ring": _allgather_ring,
    "reducescatter_ring": _reducescatter_ring,
    "allreduce_hierarchical": _allreduce_hierarchical,
    "allreduce_allpairs": _allreduce_allpairs,
    "alltoall_allpairs": _alltoall_allpairs,
    "allgather_allpairs": _allgather_allpairs,
    "broadcast_tree": _tree,
    "reduce_tree": _tree,
    "broadcast_chain": _chain,
    "reduce_chain": _chain,
}
"""By the name of the algorithm in the library."""
