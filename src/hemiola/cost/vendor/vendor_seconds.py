"""vendor_time: what the vendor's library would do for a request at a size, and how long that takes: the baseline of every verb."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.time_source import TimeSource
from hemiola.cost.vendor.nccl_model import NVLS_TREE_NETWORK_US, VendorAlgorithm
from hemiola.cost.vendor.nvls import nvls_seconds
from hemiola.cost.vendor.vendor_choice import LIBRARY_OF, VendorChoice, nccl_shape, vendor_choice
from hemiola.cost.vendor.vendor_plan import vendor_plan
from hemiola.ir.plan import Plan
from hemiola.simulator.runtimes.nccl import NCCL
from hemiola.simulator.runtimes.rccl import RCCL_OWN

OWN_RUNTIMES = {"NCCL": NCCL, "RCCL": RCCL_OWN}
"""How each library runs its own algorithms."""


@dataclass(frozen=True, slots=True)
class VendorTime:
    """A choice of the vendor's library and its time."""

    choice: VendorChoice
    seconds: float
    source: TimeSource
    """Replayed, or estimated where the algorithm is no plan."""
    plan: Plan | None
    """None for NVLS."""


def has_vendor(request: CollectiveRequest) -> bool:
    """Whether the system's runtime is a vendor's, or stands beside one."""
    return request.system.runtime in LIBRARY_OF


def vendor_time(request: CollectiveRequest, num_bytes: float) -> VendorTime:
    """The vendor's own choice, timed on the system."""
    choice = vendor_choice(request, num_bytes)
    plan = vendor_plan(choice, request)
    if plan is None:
        return VendorTime(choice, _nvls(choice, request, num_bytes), TimeSource.ESTIMATED, None)
    runtime = OWN_RUNTIMES[choice.library]
    return VendorTime(choice, replay_seconds(plan, num_bytes, request, runtime), TimeSource.REPLAYED, plan)


def _nvls(choice: VendorChoice, request: CollectiveRequest, num_bytes: float) -> float:
    """Between hosts every device sends its reduced part up a tree and gets the sum back, while the switch goes on."""
    shape = nccl_shape(request)
    inside = nvls_seconds(request.system, shape.ranks_per_host, num_bytes).seconds
    if choice.algorithm is VendorAlgorithm.NVLS:
        return inside
    factor = 1 if shape.num_hosts == 2 else 2
    network = factor * num_bytes / (shape.bus_gbps * 1e9)
    latency = 2 * math.log2(shape.num_hosts) * NVLS_TREE_NETWORK_US * 1e-6
    return max(inside, network) + latency
