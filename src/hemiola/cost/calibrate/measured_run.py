"""MeasuredRun: a plan, or the vendor's own algorithm, that ran on a system, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass

from hemiola.collectives import CollectiveKind
from hemiola.cost.replay_seconds import replay_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.cost.vendor.nccl_model import VendorAlgorithm
from hemiola.cost.vendor.nvls import NVLS
from hemiola.cost.vendor.vendor_choice import vendor_choice
from hemiola.cost.vendor.vendor_seconds import vendor_time
from hemiola.ir.plan import Plan
from hemiola.simulator.runtimes.by_name import runtime_named, runtime_of
from hemiola.topology.system import System


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One row of a measurement."""

    kind: CollectiveKind
    num_ranks: int
    num_bytes: int
    seconds: float
    plan: Plan | None = None
    """None: what the vendor's library chose."""
    name: str = ""
    """Of the plan, for people."""
    runtime: str = ""
    """That read the plan; empty: the system's."""
    in_place: bool = True

    def request(self, system: System) -> CollectiveRequest:
        """On the first devices of a system."""
        return CollectiveRequest(self.kind, system, (tuple(range(self.num_ranks)),))

    def predict(self, system: System) -> float:
        """The seconds that every verb prints for it."""
        request = self.request(system)
        if self.plan is None:
            return vendor_time(request, self.num_bytes).seconds
        runtime = runtime_named(self.runtime) if self.runtime else runtime_of(system)
        return replay_seconds(self.plan, self.num_bytes, request, runtime)

    def protocol(self, system: System) -> str:
        """Whose constants it tells."""
        if self.plan is not None:
            return self.plan.protocol.value
        choice = vendor_choice(self.request(system), self.num_bytes)
        sharp = choice.algorithm in (VendorAlgorithm.NVLS, VendorAlgorithm.NVLS_TREE)
        return NVLS if sharp else choice.protocol.value

    def described(self, system: System) -> str:
        """What ran, for people."""
        if self.plan is not None:
            return self.name or self.plan.name
        return str(vendor_choice(self.request(system), self.num_bytes))
