"""Timeline: what a simulation found: how long, when each rank is done, what each link carries, and why so long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from hemiola import _core
from hemiola._core import PathPieceKind
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import Plan, Rows
from hemiola.topology.network import Network
from hemiola.topology.system import ProtocolCosts, System

RECORD = np.dtype(_core.layout("Record"))
"""A step of a tile of a simulated threadblock (numbered over all plans), and the message that it sent."""

PIECE = np.dtype(_core.layout("PathPiece"))
"""A piece of the critical path."""

_SENDS = np.array([traits.sends for traits in TRAITS])


@dataclass(frozen=True, slots=True)
class Load:
    """A plan to be run, and for how much data."""

    plan: Plan
    num_bytes: float
    """Of the collective."""
    devices: Sequence[int] | None = None
    """The device of the system on which each rank runs; None: its own number."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that the critical path spends time on."""

    words: str
    """"waiting for the uplink of rack 1"."""
    seconds: float
    part: float
    """Of the whole."""


@dataclass(frozen=True)
class Timeline:
    """What a simulation found."""

    system: System
    network: Network
    loads: tuple[Load, ...]
    seconds: float
    """Until the last rank is done."""
    threadblock_seconds: npt.NDArray[np.float64] = field(repr=False)
    """When each threadblock is done; those of all plans, in order."""
    threadblock_class: npt.NDArray[np.uint32] = field(repr=False)
    """The threadblock that was simulated for each one."""
    resource_class: npt.NDArray[np.uint32] = field(repr=False)
    chunk_bytes: tuple[npt.NDArray[np.float64], ...] = field(repr=False)
    """Of every plan, the bytes of a chunk in every tile."""
    first_hop: npt.NDArray[np.int64] = field(repr=False)
    hops: npt.NDArray[np.int64] = field(repr=False)
    """The links of the messages of threadblock k are ``hops[first_hop[k] : first_hop[k + 1]]``."""
    num_simulated: int
    """Steps of tiles that were really stepped."""
    by_events: bool
    """Whether transfers could meet at a link, so that the order of events mattered."""
    records: Rows = field(repr=False)
    """Of every simulated threadblock in order, tile by tile; empty unless asked for."""
    pieces: Rows = field(repr=False)
    """The critical path, from the beginning; empty unless records were asked for."""
    protocols: tuple[ProtocolCosts, ...] = ()

    @cached_property
    def first_threadblocks(self) -> list[int]:
        """The first threadblock of each plan, and their number."""
        return list(accumulate((len(load.plan.threadblocks) for load in self.loads), initial=0))

    def rank_seconds(self, load: int = 0) -> npt.NDArray[np.float64]:
        """When each rank of a plan is done."""
        plan, first = self.loads[load].plan, self.first_threadblocks[load]
        done = np.zeros(plan.num_ranks)
        ends = self.threadblock_seconds[first : first + len(plan.threadblocks)]
        np.maximum.at(done, plan.threadblocks["rank"].astype(np.int64), ends)
        return done

    def load_seconds(self, load: int) -> float:
        """When a plan is done."""
        return float(self.rank_seconds(load).max(initial=0.0))

    @cached_property
    def num_steps(self) -> int:
        """Steps of tiles of all ranks, simulated or folded."""
        return sum(
            load.plan.num_steps * len(tiles) for load, tiles in zip(self.loads, self.chunk_bytes, strict=True)
        )

    @cached_property
    def link_bytes(self) -> npt.NDArray[np.float64]:
        """What each link of the network carries in all."""
        sent = np.concatenate(
            [
                _sent_chunks(load.plan) * tiles.sum()
                for load, tiles in zip(self.loads, self.chunk_bytes, strict=True)
            ]
        )
        weights = np.repeat(sent, np.diff(self.first_hop))
        carried: npt.NDArray[np.float64] = np.zeros(self.network.num_links)
        np.add.at(carried, self.hops, weights)
        return carried

    @cached_property
    def link_use(self) -> npt.NDArray[np.float64]:
        """The part of what each link could carry in the whole time that it does carry."""
        whole = self.network.capacities * self.seconds
        return np.divide(self.link_bytes, whole, out=np.zeros(len(whole)), where=whole > 0)

    @cached_property
    def reasons(self) -> list[Reason]:
        """What the critical path spends its time on, the longest first."""
        lengths = self.pieces["end"] - self.pieces["begin"]
        # Kind and resource as one number, which is found sooner than equal pairs; a resource may be -1, for none.
        keys = (self.pieces["kind"].astype(np.int64) << 32) + self.pieces["resource"] + 1
        distinct, which = np.unique(keys, return_inverse=True)
        sums = np.bincount(which, weights=lengths, minlength=len(distinct))
        found = [
            Reason(self._words(key >> 32, key % (1 << 32) - 1), float(total), float(total / self.seconds))
            for key, total in zip(distinct.tolist(), sums, strict=True)
        ]
        return sorted(found, key=lambda reason: (-reason.seconds, reason.words))

    def _words(self, kind: int, resource: int) -> str:
        if kind == PathPieceKind.OVERHEAD:
            return "starting messages"
        if kind == PathPieceKind.LATENCY:
            return "on the way (latency)"
        if kind == PathPieceKind.TRANSFER:
            if resource < 0:
                return "sending"
            name = self.network.name(resource)
            return f"waiting for {'' if name.startswith('NIC') else 'the '}{name}{self._alike(resource)}"
        verb = "adding" if kind == PathPieceKind.ADDING else "copying"
        if resource < 0:
            return f"{verb}, as fast as a threadblock can"
        return f"{verb}, on {self._owner(resource)}{self._alike(resource)}"

    def _alike(self, resource: int) -> str:
        others = int((self.resource_class == self.resource_class[resource]).sum()) - 1
        return f" ({others} more alike)" if others else ""

    def _owner(self, resource: int) -> str:
        """Whose adding or copying a resource beyond the links is; they follow in the order of ``Compute``."""
        compute, number = self.system.compute, resource - self.network.num_links
        for bandwidth, of_host in compute.limits():
            if np.isinf(bandwidth):
                continue
            count = self.system.num_hosts if of_host else self.system.num_ranks
            if number < count:
                return self.system.host_name(number) if of_host else f"rank {number}"
            number -= count
        raise AssertionError(f"there is no resource {resource}")


def _sent_chunks(plan: Plan) -> npt.NDArray[np.float64]:
    """How many chunks each threadblock sends."""
    sent = np.where(_SENDS[plan.steps["opcode"]], plan.steps["count"], 0)
    sums = np.concatenate([[0], np.cumsum(sent, dtype=np.int64)])
    first = plan.threadblocks["first_step"].astype(np.int64)
    ends = np.append(first[1:], plan.num_steps) if len(first) else first
    chunks: npt.NDArray[np.float64] = (sums[ends] - sums[first]).astype(np.float64)
    return chunks
