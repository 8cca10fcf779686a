"""TileTimes: seconds of one plan for a request, by the tiles into which its data is cut.

The plan is wired and folded once, and every replay is remembered. Sizes are counted in elements of a chunk, so that
``elements * unit`` are the bytes of a collective that leave nothing over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hemiola import _core
from hemiola.cost.replay_seconds import busy_seconds
from hemiola.cost.request import CollectiveRequest
from hemiola.ir.plan import Plan
from hemiola.simulator.replay import never_ends, rehearse
from hemiola.simulator.runtimes.hemiola import HemiolaRuntime, PlanCutter
from hemiola.simulator.runtimes.runtime_model import Tiles
from hemiola.simulator.timeline import Load

TileLengths = tuple[int, ...]
"""Elements of a chunk in a whole tile, for each way in which groups lie on hosts."""


@dataclass(frozen=True)
class TileTimes:
    """Replays of a plan with tiles of any number and length; all groups of the request run at once."""

    request: CollectiveRequest
    plan: Plan
    runtime: HemiolaRuntime
    _known: dict[tuple[int, TileLengths, bool], float] = field(default_factory=dict)

    @property
    def unit(self) -> float:
        """Bytes of the collective that give every chunk one element."""
        shares = self.plan.collective.num_shares()
        return float(self.runtime.element_bytes * self.plan.share_chunks * shares)

    @property
    def num_steps(self) -> int:
        """Steps that a replay takes for every tile, after folding."""
        return self._rehearsal.num_steps

    @cached_property
    def busy_seconds(self) -> float:
        """What the busiest link, device or host needs for one element of every chunk."""
        return busy_seconds(self.plan, self.unit, self.request)

    def tile_lengths(self, elements: int) -> TileLengths:
        """How long the runtime makes the tiles of a size."""
        return tuple(cutter.cut(elements * self.unit).tile for cutter in self._cutters)

    def seconds(self, elements: int, lengths: TileLengths, *, left_over: bool = False) -> float:
        """A replay of all tiles, which are so long but for the last one; and of one more of one element, for what is left over."""
        key = (elements, lengths, left_over)
        if key not in self._known:
            tiles = [self._tiles(elements, length, left_over) for length in lengths]
            found = self._rehearsal.seconds(tiles)
            if found < 0:
                raise never_ends(self.runtime.num_slots([self.plan]))
            self._known[key] = found
        return self._known[key]

    @cached_property
    def _cutters(self) -> Sequence[PlanCutter]:
        cores = self.request.system.compute.host_cores
        return [self.runtime.cutter(self.plan, hosts, cores) for hosts in self.request.host_patterns]

    @cached_property
    def _rehearsal(self) -> _core.Rehearsal:
        loads = [Load(self.plan, self.unit, group) for group in self.request.groups]
        return rehearse(loads, self.request.pattern_of_group, self.request.system, self.runtime)

    def _tiles(self, elements: int, length: int, left_over: bool) -> Tiles:
        whole, rest = divmod(elements, length)
        every = [length] * whole + [rest] * (rest > 0) + [1] * left_over
        return np.array(every, np.float64) * self.runtime.element_bytes
