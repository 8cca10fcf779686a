"""GpuRuntime: how NCCL, RCCL and the MSCCL interpreters cut a call and move it; the values are in nccl.py, rccl.py and msccl.py.

A threadblock is a group of threads that runs its steps one after another. To a device of its own host it stores directly into the
peer's buffer, so that sending is its work; to another host it fills a buffer that a proxy and a NIC send on. What the
constants are is said by the system (``ProtocolCosts``); what the runtime does, here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hemiola.errors import LimitError
from hemiola.ir.plan import Plan, Protocol
from hemiola.ir.runtime_slots import SlotRule, slot_rule
from hemiola.simulator.runtimes.message_steps import message_steps
from hemiola.simulator.runtimes.runtime_model import LoweredPlan, Tiles

MOST_TILES = 1 << 22
"""More are not replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRuntime:
    """A runtime of GPUs."""

    name: str
    interprets: bool
    """Whether an interpreter reads the steps of a plan one by one; its own algorithms are compiled."""
    smallest_slice_bytes: int = 16 << 10
    """Messages of Simple up to this size are one slice."""
    streamed_parts: int = 8
    """With LL and LL128 every line has a flag of its own, so that the receiver follows the sender line by line: it is replayed in so
    many parts of a message."""
    element_bytes: int = 4

    most_threadblocks: int | None = 1024
    """Of a rank; a device has fewer (``Compute.threadblocks``)."""

    @property
    def message_choices(self) -> tuple[int, ...]:
        """The sizes of messages are those of its buffers."""
        return ()

    @property
    def direct_sends(self) -> bool:
        """Threadblocks store into the memory of devices of their host."""
        return True

    def rule(self, protocol: Protocol) -> SlotRule:
        """How chunks are packed into messages."""
        return slot_rule(self.name, protocol)

    def tiles(self, plan: Plan, num_bytes: float, hosts: Sequence[int], cores_per_host: int | None) -> Tiles:
        """A message's payload of every chunk at a time, in slices."""
        rule, chunk = self.rule(plan.protocol), self._chunk_bytes(plan, num_bytes)
        number = rule.num_iterations(chunk)
        if number > MOST_TILES:
            raise LimitError(
                f"the data is cut into {number} tiles, and at most {MOST_TILES} are simulated; take fewer bytes"
            )
        tiles = np.full(number, float(rule.payload_bytes))
        tiles[-1] = chunk - (number - 1) * rule.payload_bytes
        return tiles / self._parts(plan, num_bytes)

    def num_slots(self, plans: Iterable[Plan]) -> int:
        """Messages in flight, counted in slices."""
        found = (self.rule(plan.protocol).slots * self._most_parts(plan.protocol) for plan in plans)
        return min(found, default=1)

    def lower(self, plan: Plan, num_bytes: float) -> LoweredPlan:
        """A step for every slice of every message; an interpreter also steps over the dependencies beyond the first.

        The slices of Simple are given to a NIC one by one, messages of LL and LL128 as a whole.
        """
        rule, chunk = self.rule(plan.protocol), self._chunk_bytes(plan, num_bytes)
        packed, parts = rule.chunks_per_message(chunk), self._parts(plan, num_bytes)
        lowered = message_steps(plan, packed, parts, one_dependency=self.interprets)
        return lowered if plan.protocol is Protocol.SIMPLE else replace(lowered, posted_share=1 / parts)

    def _chunk_bytes(self, plan: Plan, num_bytes: float) -> float:
        """Whole elements."""
        chunk = num_bytes / plan.collective.num_shares() / plan.share_chunks
        return math.ceil(chunk / self.element_bytes - 1e-9) * self.element_bytes

    def _most_parts(self, protocol: Protocol) -> int:
        return self.rule(protocol).slices if protocol is Protocol.SIMPLE else self.streamed_parts

    def _parts(self, plan: Plan, num_bytes: float) -> int:
        """Of a message: as many for all of them, since tiles are cut into parts."""
        rule, chunk = self.rule(plan.protocol), self._chunk_bytes(plan, num_bytes)
        packed = min(rule.chunks_per_message(chunk), int(plan.steps["count"].max(initial=1)))
        smallest = self.smallest_slice_bytes if plan.protocol is Protocol.SIMPLE else 0
        return self._most_parts(plan.protocol) if packed * chunk > smallest else 1
