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


class RuntimeModel(Protocol):
    """A runtime as the replay sees it; a frozen value, so that prices can be kept by it."""

    def tiles(self, plan: Plan, num_bytes: float, hosts: Sequence[int], cores_per_host: int | None) -> Tiles:
        """How a call of ``num_bytes`` is cut; ``hosts`` has the host of every rank, ``cores_per_host`` is None where every rank has one."""
        ...

    def num_slots(self, plans: Iterable[Plan]) -> int:
        """The messages that a connection holds when these plans run, before its sender waits."""
        ...


@dataclass(frozen=True, slots=True)
class EqualTiles:
    """A runtime that cuts every chunk into so many equal parts, however large that makes a message."""

    num_tiles: int
    slots: int | None = None
    """None: as many as our runtime has, and no fewer than the plans count on."""

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
