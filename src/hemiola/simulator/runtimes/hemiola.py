"""HemiolaRuntime: how our own runtime cuts a call into tiles, asked of the C++ code that does it (csrc/runtime/tiles.h)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hemiola import _core
from hemiola.errors import LimitError
from hemiola.ir.plan import Plan
from hemiola.ir.rows import plan_view
from hemiola.runtime.settings import Settings
from hemiola.simulator.runtimes.runtime_model import MovesAsWritten, Tiles
from hemiola.units import format_bytes

MOST_TILES = 1 << 22
"""More are not replayed."""
MESSAGES = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
"""Sizes of messages that are tried beside what the runtime chooses."""
_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class HemiolaRuntime(MovesAsWritten):
    """The runtime with its settings; the defaults are those of ``runtime.settings``."""

    slots: int | None = None
    """Messages that a connection holds before its sender waits; None: the default, and no fewer than plans count on."""
    slot_bytes: int = _DEFAULTS.slot_bytes
    """The largest message."""
    tile_bytes: int = _DEFAULTS.tile_bytes
    """The size of messages; 0: what the plan says, and where it says nothing what the runtime chooses."""
    element_bytes: int = 4

    def __post_init__(self) -> None:
        leasts = {"slots": 1, "slot_bytes": 1, "tile_bytes": 0, "element_bytes": 1}
        for name, least in leasts.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise LimitError(f"{name} is at least {least}, but is {value}")

    @property
    def message_choices(self) -> tuple[int, ...]:
        """Those that fit in a slot."""
        return tuple(size for size in MESSAGES if size <= self.slot_bytes)

    def num_slots(self, plans: Iterable[Plan]) -> int:
        """The slots of every connection when these plans run."""
        if self.slots is not None:
            return self.slots
        return max([_DEFAULTS.slots, *(plan.protocol.slots for plan in plans)])

    def tiles(self, plan: Plan, num_bytes: float, hosts: Sequence[int], cores_per_host: int | None) -> Tiles:
        """As the executor cuts a call of ``num_bytes`` on ranks that lie on these hosts."""
        found = self.cutter(plan, hosts, cores_per_host).cut(num_bytes)
        if found.num_tiles > MOST_TILES:
            raise LimitError(
                f"the data is cut into {found.num_tiles} tiles, and at most {MOST_TILES} are simulated; take fewer bytes or larger tiles"
            )
        return found.lengths().astype(np.float64) * self.element_bytes

    def cutter(self, plan: Plan, hosts: Sequence[int], cores_per_host: int | None) -> PlanCutter:
        """How calls of any size of a plan are cut."""
        cut = _core.Cut.of(plan_view(plan), plan.share_chunks)
        if cut.max_count * self.element_bytes > self.slot_bytes:
            raise LimitError(
                f"a message of {cut.max_count} chunks does not fit in a slot of {format_bytes(self.slot_bytes)};"
                " take larger slots or fewer chunks"
            )
        message_bytes = self.tile_bytes or plan.message_bytes
        num_shares = plan.collective.num_shares()
        return PlanCutter(self, cut, message_bytes, num_shares, ranks_on(hosts, cores_per_host))


@dataclass(frozen=True, slots=True)
class PlanCutter:
    """How the runtime cuts calls of one plan on ranks that lie on hosts in one way."""

    runtime: HemiolaRuntime
    plan_cut: _core.Cut
    message_bytes: int
    num_shares: int
    ranks_on: _core.RanksOn

    def cut(self, num_bytes: float) -> _core.Tiles:
        """The tiles of a size."""
        share = math.ceil(num_bytes / self.num_shares / self.runtime.element_bytes - 1e-9)
        return _core.cut_into_tiles(
            self.plan_cut,
            elements=share,
            element_bytes=self.runtime.element_bytes,
            message_bytes=self.message_bytes,
            slot_bytes=self.runtime.slot_bytes,
            ranks_on=self.ranks_on,
        )


HEMIOLA = HemiolaRuntime()
"""With its defaults."""


def ranks_on(hosts: Sequence[int], cores_per_host: int | None) -> _core.RanksOn:
    """Where the ranks of a call are, as far as the runtime looks at it."""
    local = max(hosts.count(host) for host in set(hosts)) if hosts else 0
    per_core = 1 if not cores_per_host else -(-local // cores_per_host)
    return _core.locate_ranks(len(hosts), local, per_core)
