"""vendor_choice: which algorithm, protocol and channels the vendor's library takes for a request at a size."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.vendor.gpu_generation import Generation, device_bandwidth, generation_of
from hemiola.cost.vendor.nccl_model import NcclShape, VendorAlgorithm, nccl_estimates
from hemiola.ir.plan import Protocol
from hemiola.topology.system import System

LIBRARY_OF = {"nccl": "NCCL", "msccl": "NCCL", "rccl": "RCCL"}
"""The vendor's library beside each runtime: MSCCL is a fork of NCCL and falls back to it."""
RINGS = (CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER, CollectiveKind.REDUCESCATTER)
CHAINS = (CollectiveKind.BROADCAST, CollectiveKind.REDUCE)
MOST_CHANNELS = {
    Generation.VOLTA: 12,
    Generation.AMPERE: 24,
    Generation.HOPPER: 24,
    Generation.BLACKWELL: 32,
}
"""On one host (NCCL's search finds as many rings of 20 GB/s and more)."""
CHANNELS_PER_NIC = 2
RCCL_CHANNELS_PER_RING = 4
"""RCCL has 28 channels of 7 rings by default on eight GPUs in a full mesh."""
P2P_CHANNELS = 4
"""Of a pair of devices of a host; pairs of different hosts have one."""
LINK_PART = {
    Generation.VOLTA: 0.8,
    Generation.AMPERE: 0.55,
    Generation.HOPPER: 0.82,
    Generation.BLACKWELL: 0.82,
}
"""Of the links' bandwidth, what NCCL's tables count on when it chooses (370 of 450 GB/s on Hopper). On Ampere two public tables change from LL to
LL128 before 1 MiB and to Simple before 16 MiB, where 240 of 300 GB/s would give 1.2 and 24 MB and 165 gives both. It decides only which algorithm is taken."""
THREADS = {Protocol.LL: 512, Protocol.LL128: 640, Protocol.SIMPLE: 512}
THRESHOLDS = {Protocol.LL: 8, Protocol.LL128: 8, Protocol.SIMPLE: 64}
"""Bytes of a thread below which a channel less is used; of rings with LL, times the ranks."""
MOST_LL_CHANNELS = {Generation.AMPERE: 8}
"""Of rings: on Ampere, times with LL grow in proportion to the bytes from 256 KiB on, as with so many channels (two public tables)."""
RCCL_SIZES = {Protocol.LL: 256 << 10, Protocol.LL128: 0}
"""RCCL takes LL up to this size, and Simple from then on."""


@dataclass(frozen=True, slots=True)
class VendorChoice:
    """What the library would do."""

    library: str
    algorithm: VendorAlgorithm
    protocol: Protocol
    channels: int

    def __str__(self) -> str:
        if self.algorithm in (VendorAlgorithm.NVLS, VendorAlgorithm.NVLS_TREE):
            return f"{self.library} {self.algorithm.value}"
        return f"{self.library} {self.algorithm.value} {self.protocol.value}, {self.channels} channels"


def vendor_choice(request: CollectiveRequest, num_bytes: float, runtime: str | None = None) -> VendorChoice:
    """What the library beside a runtime takes; by default that of the system."""
    library = LIBRARY_OF[runtime or request.system.runtime]
    if request.kind not in (*RINGS, *CHAINS):
        inside = len(set(request.hosts)) == 1
        return VendorChoice(library, VendorAlgorithm.P2P, Protocol.SIMPLE, P2P_CHANNELS if inside else 1)
    if library == "RCCL":
        protocol = Protocol.LL if num_bytes <= RCCL_SIZES[Protocol.LL] else Protocol.SIMPLE
        rings = request.num_ranks - 1 if len(set(request.hosts)) == 1 else 1
        return VendorChoice(library, VendorAlgorithm.RING, protocol, RCCL_CHANNELS_PER_RING * rings)
    shape = nccl_shape(request)
    best = min(nccl_estimates(request.kind, shape, num_bytes), key=lambda one: one.seconds)
    channels = used_channels(best.algorithm, best.protocol, shape, num_bytes)
    return VendorChoice(library, best.algorithm, best.protocol, channels)


def nccl_shape(request: CollectiveRequest) -> NcclShape:
    """What NCCL knows of the communicator of a group."""
    system, hosts = request.system, request.hosts
    num_hosts, generation = len(set(hosts)), generation_of(system)
    inside = device_bandwidth(system) * LINK_PART[generation]
    channels, moved = MOST_CHANNELS[generation], inside
    if num_hosts > 1:
        nics = _nics(system)
        channels, moved = min(channels, CHANNELS_PER_NIC * nics[0]), min(inside, nics[1])
    return NcclShape(
        num_hosts,
        request.num_ranks // num_hosts,
        generation,
        max(channels, 1),
        moved / 1e9,
        system.levels[-1].fabric.reduces,
    )


def _nics(system: System) -> tuple[int, float]:
    """How many NICs a host has, and what they send together."""
    depth = system.host_depth
    link = system.levels[depth - 1].link if depth else None
    return (1, float("inf")) if link is None else (link.num, link.bandwidth_out * link.num)


def used_channels(algorithm: VendorAlgorithm, protocol: Protocol, shape: NcclShape, num_bytes: float) -> int:
    """As many as have enough bytes for each of their threads."""
    threshold = THRESHOLDS[protocol]
    most = shape.channels
    if algorithm is VendorAlgorithm.RING and protocol is Protocol.LL:
        threshold *= shape.num_ranks
        most = min(most, MOST_LL_CHANNELS.get(shape.generation, most))
    return max(1, min(most, int(num_bytes // (THREADS[protocol] * threshold))))
