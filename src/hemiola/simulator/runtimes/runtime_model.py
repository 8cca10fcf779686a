"""RuntimeModel: what the replay asks of a runtime: how it cuts the data of a plan into tiles, and how many messages a connection holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hemiola.errors import LimitError
from hemiola.ir.plan import Plan
from hemiola.runtime.settings import Settings

Tiles = npt.NDArray[np.float64]
"""The bytes of a chunk in each tile, in the order in which the tiles run through the plan."""


@dataclass(frozen=True, slots=True)
class LoweredPlan:
    """A plan as a runtime moves it."""

    plan: Plan
    begins: npt.NDArray[np.bool_] | None = None
    """The steps with which a step of the original begins; None: all."""
    posted_share: float = 1.0
    """What a replayed message is of one that a NIC is given; less than one where a message is replayed in parts."""

    def act_seconds(self, seconds: float) -> npt.NDArray[np.float64]:
        """What each step costs where reading a step of the original takes so long."""
        return np.where(
            True if self.begins is None else self.begins, np.full(self.plan.num_steps, seconds), 0.0
        )


class RuntimeModel(Protocol):
    """A runtime as the replay sees it; a frozen value, so that prices can be kept by it."""

    def tiles(self, plan: Plan, num_bytes: float, hosts: Sequence[int], cores_per_host: int | None) -> Tiles:
        """How a call of ``num_bytes`` is cut; ``hosts`` has the host of every rank, ``cores_per_host`` is None where every rank has one."""
        ...

    def num_slots(self, plans: Iterable[Plan]) -> int:
        """The messages that a connection holds when these plans run, before its sender waits."""
        ...

    def lower(self, plan: Plan, num_bytes: float) -> LoweredPlan:
        """The plan with a step for everything that the runtime does one after another."""
        ...

    @property
    def element_bytes(self) -> int:
        """Of an element: chunks have whole elements."""
        ...

    @property
    def message_choices(self) -> tuple[int, ...]:
        """Sizes of messages that a plan may ask for; empty where the runtime has no such knob."""
        ...

    @property
    def most_threadblocks(self) -> int | None:
        """Threadblocks of a rank that it takes; None where they need not run at once."""
        ...

    @property
    def direct_sends(self) -> bool:
        """Whether threadblocks store into the memory of devices of their host, so that sending is their work."""
        ...

    @property
    def interprets(self) -> bool:
        """Whether every step of the plan costs the ``act_seconds`` of an interpreter."""
        ...


class MovesAsWritten:
    """A runtime that does what a plan says, step by step, and copies what it sends into a connection."""

    __slots__ = ()

    def lower(self, plan: Plan, num_bytes: float) -> LoweredPlan:
        """As it is."""
        return LoweredPlan(plan)

    @property
    def message_choices(self) -> tuple[int, ...]:
        """None, unless a runtime says otherwise."""
        return ()

    @property
    def most_threadblocks(self) -> int | None:
        """Threadblocks take turns."""
        return None

    @property
    def direct_sends(self) -> bool:
        """Messages go out while their threadblock goes on."""
        return False

    @property
    def interprets(self) -> bool:
        """What a step costs beside its bytes is ``step_seconds`` of its message."""
        return False


@dataclass(frozen=True, slots=True)
class EqualTiles(MovesAsWritten):
    """A runtime that cuts every chunk into so many equal parts, however large that makes a message."""

    num_tiles: int
    slots: int | None = None
    """None: as many as our runtime has, and no fewer than the plans count on."""
    element_bytes: int = 4

    def __post_init__(self) -> None:
        for name in ("num_tiles", "slots"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LimitError(f"{name} is at least 1, but is {value}")

    def tiles(self, plan: Plan, num_bytes: float, hosts: Sequence[int], cores_per_host: int | None) -> Tiles:
        """Equal parts of a chunk."""
        chunk = num_bytes / plan.collective.num_shares() / plan.share_chunks
        return np.full(self.num_tiles, chunk / self.num_tiles)

    def num_slots(self, plans: Iterable[Plan]) -> int:
        """As said."""
        return self.slots or max([Settings().slots, *(plan.protocol.slots for plan in plans)])
