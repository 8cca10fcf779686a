"""nccl_estimates: the times by which NCCL chooses its algorithm and protocol.

NCCL does not measure. It has a table of latencies and of bandwidths per generation of GPU (src/graph/tuning.cc, versions 2.20 and 2.28) and
takes what is fastest by ``latency + bytes / bandwidth``. The numbers here are those of that table; they decide what is
replayed, and are never printed as times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from hemiola.collectives import CollectiveKind
from hemiola.cost.vendor.gpu_generation import Generation
from hemiola.ir.plan import Protocol

LL, LL128, SIMPLE = Protocol.LL, Protocol.LL128, Protocol.SIMPLE


class VendorAlgorithm(Enum):
    """The value is the name that the library gives it."""

    RING = "ring"
    TREE = "tree"
    NVLS = "nvls"
    NVLS_TREE = "nvlstree"
    P2P = "p2p"


BASE_US = {
    VendorAlgorithm.TREE: {LL: 6.8, LL128: 14.0, SIMPLE: 0.0},
    VendorAlgorithm.RING: {LL: 6.6, LL128: 14.0, SIMPLE: 8.4},
}
"""Of a call."""
NVLINK_US = {
    VendorAlgorithm.TREE: {LL: 0.6, LL128: 1.25, SIMPLE: 28.0},
    VendorAlgorithm.RING: {LL: 0.6, LL128: 1.9, SIMPLE: 3.4},
}
NETWORK_US = {
    VendorAlgorithm.TREE: {LL: 5.0, LL128: 8.5, SIMPLE: 28.0},
    VendorAlgorithm.RING: {LL: 2.7, LL128: 4.0, SIMPLE: 14.0},
}
"""Of a step inside a host, and between hosts."""
NVLS_US, NVLS_NETWORK_US, NVLS_TREE_NETWORK_US = 23.0, 18.0, 14.0
LL_GBPS = {
    Generation.VOLTA: (39.0, 39.0, 20.4),
    Generation.AMPERE: (87.7, 22.5, 19.0),
    Generation.HOPPER: (141.0, 45.0, 35.0),
    Generation.BLACKWELL: (282.0, 90.0, 70.0),
}
"""What LL moves at most, on one host, on two and on more."""
RING_LL128_GBPS = {
    Generation.VOLTA: 20.0,
    Generation.AMPERE: 20.0,
    Generation.HOPPER: 36.7,
    Generation.BLACKWELL: 40.0,
}
"""Of a channel."""
TREE_GBPS = {
    Generation.VOLTA: (26.5, 18.5, 10.0),
    Generation.AMPERE: (24.0, 23.6, 17.8),
    Generation.HOPPER: (38.7, 41.4, 36.0),
    Generation.BLACKWELL: (70.0, 42.8, 24.0),
}
"""Of a channel, on one host, on two and on more."""
TREE_CORRECTION = {
    LL: (1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1),
    LL128: (1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1),
    SIMPLE: (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9),
}  # fmt: skip
"""Of a tree's bandwidth, by size: 64 bytes, 128, ... 256 MiB."""
NVLS_PART = 5 / 6
"""Of the links' bandwidth, that NVLS gets as algorithm bandwidth."""


@dataclass(frozen=True, slots=True)
class NcclShape:
    """What NCCL knows of a communicator."""

    num_hosts: int
    ranks_per_host: int
    generation: Generation
    channels: int
    bus_gbps: float
    """Of all rings together."""
    has_nvls: bool

    @property
    def num_ranks(self) -> int:
        """Of the communicator."""
        return self.num_hosts * self.ranks_per_host

    @property
    def column(self) -> int:
        """Of the tables that tell one host, two and more apart."""
        return min(self.num_hosts, 3) - 1


@dataclass(frozen=True, slots=True)
class NcclEstimate:
    """A way to carry out a call, and the time that NCCL believes it takes."""

    algorithm: VendorAlgorithm
    protocol: Protocol
    seconds: float


def nccl_estimates(kind: CollectiveKind, shape: NcclShape, num_bytes: float) -> Iterator[NcclEstimate]:
    """Every way that NCCL considers, with the time by which it chooses."""
    for protocol in (LL, LL128, SIMPLE):
        yield _estimate(VendorAlgorithm.RING, protocol, *_ring(kind, shape, protocol), num_bytes)
    if kind is not CollectiveKind.ALLREDUCE:
        return
    for protocol in (LL, LL128, SIMPLE):
        latency, gbps = _tree(shape, protocol)
        place = min(int(math.log2(max(num_bytes / 64, 1))), 22)
        yield _estimate(
            VendorAlgorithm.TREE, protocol, latency, gbps * TREE_CORRECTION[protocol][place], num_bytes
        )
    if shape.has_nvls and shape.num_hosts == 1:
        yield _estimate(VendorAlgorithm.NVLS, SIMPLE, NVLS_US, shape.bus_gbps * NVLS_PART, num_bytes)
    elif shape.has_nvls:
        latency = NVLS_US + 2 * math.log2(shape.num_hosts) * NVLS_TREE_NETWORK_US
        part = 1.0 if shape.num_hosts == 2 else 0.5
        yield _estimate(
            VendorAlgorithm.NVLS_TREE, SIMPLE, latency, shape.bus_gbps * NVLS_PART * part, num_bytes
        )


def _estimate(
    algorithm: VendorAlgorithm, protocol: Protocol, latency_us: float, gbps: float, num_bytes: float
) -> NcclEstimate:
    return NcclEstimate(algorithm, protocol, latency_us * 1e-6 + num_bytes / (gbps * 1e9))


def _ring(kind: CollectiveKind, shape: NcclShape, protocol: Protocol) -> tuple[float, float]:
    """Microseconds without data, and GB/s of the collective's bytes."""
    n, hosts = shape.num_ranks, shape.num_hosts
    both = kind is CollectiveKind.ALLREDUCE
    steps = 2 * (n - 1) if both else n if kind.facts.rooted else n - 1
    between = (2 * hosts if hosts > 1 else 0) if both else hosts if kind.facts.rooted else hosts - 1
    gbps = shape.bus_gbps
    if protocol is LL:
        slow = hosts > 1 or both or kind is CollectiveKind.REDUCE
        parts = 2 if shape.generation in (Generation.HOPPER, Generation.BLACKWELL) else 4 if slow else 3
        gbps = min(LL_GBPS[shape.generation][shape.column], gbps / parts)
    elif protocol is LL128:
        gbps = min(gbps * 0.92, shape.channels * RING_LL128_GBPS[shape.generation])
    inside = NVLINK_US[VendorAlgorithm.RING][protocol]
    latency = (steps - between) * inside + between * NETWORK_US[VendorAlgorithm.RING][protocol]
    return BASE_US[VendorAlgorithm.RING][protocol] + latency, gbps * n / steps


def _tree(shape: NcclShape, protocol: Protocol) -> tuple[float, float]:
    tree = VendorAlgorithm.TREE
    gbps = min(shape.bus_gbps * 0.92, shape.channels * TREE_GBPS[shape.generation][shape.column])
    if protocol is LL:
        gbps = min(gbps / 3.8, LL_GBPS[shape.generation][shape.column])
    elif protocol is LL128:
        part = 7 / 9 if shape.num_hosts == 1 else 120 / 128
        gbps = min(gbps * part, shape.channels * RING_LL128_GBPS[shape.generation])
    steps = (shape.ranks_per_host - 1) * NVLINK_US[tree][protocol]
    steps += math.floor(math.log2(shape.num_hosts)) * NETWORK_US[tree][protocol]
    return BASE_US[tree][protocol] + 2 * steps, gbps * 0.5
