"""vendor_plan: what a vendor's library would do, as a plan that is replayed like any other; None for NVLS, which is no plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from hemiola.algorithms.library import ALGORITHMS
from hemiola.algorithms.vendor.rings import ring_orders, vendor_rings
from hemiola.algorithms.vendor.tree import vendor_tree
from hemiola.collectives import CollectiveKind
from hemiola.compiler.compile import compile_program
from hemiola.compiler.options import CompileOptions
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.vendor.nccl_model import VendorAlgorithm
from hemiola.cost.vendor.vendor_choice import RINGS, VendorChoice
from hemiola.errors import TopologyError
from hemiola.ir.plan import Plan
from hemiola.language.program import Program

P2P = {
    CollectiveKind.ALLTOALL: "alltoall_allpairs",
    CollectiveKind.ALLTONEXT: "alltonext_direct",
    CollectiveKind.SENDRECV: "sendrecv",
    CollectiveKind.GATHER: "gather_direct",
    CollectiveKind.SCATTER: "scatter_direct",
    CollectiveKind.BROADCAST: "broadcast_chain",
    CollectiveKind.REDUCE: "reduce_chain",
}
"""Grouped sends and receives, and the chains of rooted rings."""
CHAIN_CHUNKS = 4


def vendor_plan(choice: VendorChoice, request: CollectiveRequest) -> Plan | None:
    """The plan of a choice, compiled once."""
    if choice.algorithm in (VendorAlgorithm.NVLS, VendorAlgorithm.NVLS_TREE):
        return None
    levels = host_levels(request)
    mesh = request.system.levels[-1].fabric.kind == "mesh" and choice.library == "RCCL"
    ends = (request.root, request.peer)
    return _compiled(choice, request.kind, levels, mesh, request.in_place, ends)


def host_levels(request: CollectiveRequest) -> tuple[int, int]:
    """Hosts, and devices of each; vendors' algorithms are built for as many on every host."""
    hosts = request.hosts
    counts = [hosts.count(host) for host in dict.fromkeys(hosts)]
    if len(set(counts)) > 1:
        return len(hosts), 1
    return len(counts), counts[0]


@lru_cache(maxsize=256)
def _compiled(
    choice: VendorChoice,
    kind: CollectiveKind,
    levels: tuple[int, int],
    mesh: bool,
    in_place: bool,
    ends: tuple[int, int],
) -> Plan:
    program = _builder(choice, kind, levels, mesh, in_place, ends)()
    return compile_program(program, CompileOptions(slots=choice.protocol.slots)).plan


def _builder(
    choice: VendorChoice,
    kind: CollectiveKind,
    levels: tuple[int, int],
    mesh: bool,
    in_place: bool,
    ends: tuple[int, int],
) -> Callable[[], Program]:
    protocol = choice.protocol.value
    if choice.algorithm is VendorAlgorithm.TREE:
        chunks = min(choice.channels, levels[1]) if levels[0] > 1 else 1
        instances = max(1, choice.channels // chunks)
        return lambda: vendor_tree(levels=levels, chunks=chunks, instances=instances, protocol=protocol)
    if choice.algorithm is VendorAlgorithm.RING and kind in RINGS:
        instances = max(1, choice.channels // len(ring_orders(*levels, mesh=mesh)))
        return lambda: vendor_rings(kind, levels=levels, mesh=mesh, instances=instances, protocol=protocol)
    if kind not in P2P:
        raise TopologyError(f"{choice.library} has no {kind}")
    algorithm = ALGORITHMS[P2P[kind]]
    given = {"root": ends[0], "source": ends[0], "destination": ends[1], "chunks": CHAIN_CHUNKS}
    parameters = {name: value for name, value in given.items() if name in algorithm.parameters}
    if "in_place" in algorithm.parameters:
        parameters["in_place"] = in_place
    ranks, instances = levels[0] * levels[1], choice.channels
    return lambda: algorithm.build(ranks=ranks, instances=instances, protocol=protocol, **parameters)
