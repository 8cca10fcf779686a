"""FittedConstant: a number of a system that a fit moves, and which numbers are moved for so many rows.

A constant is physical: the launch of a call, the latency of a message, what a threadblock sends or takes in, the part of a link that data
gets, what an interpreter takes for a step. One that several protocols share is moved for all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hemiola.cost.vendor.nvls import NVLS
from hemiola.topology.system import ProtocolCosts, System

ROWS_PER_CONSTANT = 4
SHORTEST = 1e-9
"""Seconds that a fit begins with where a system says none."""
ADDED_SECONDS = 10e-6
"""A launch moves by so much where its number moves by one."""


@dataclass(frozen=True, slots=True)
class FittedConstant:
    """A number of one or several protocols."""

    fields: tuple[str, ...]
    """Of ``ProtocolCosts``."""
    protocols: tuple[str, ...]
    is_added: bool = False
    """Whether it is added to what the system says; otherwise what the system says is multiplied."""

    @property
    def name(self) -> str:
        """For people."""
        return f"{' and '.join(self.protocols)} {' and '.join(self.fields)}"

    def is_finite(self, system: System) -> bool:
        """Whether there is a number to move: what has no limit stays so."""
        values = [getattr(system.protocols[name], field) for name in self.protocols for field in self.fields]
        return any(math.isfinite(value) for value in values)

    def apply(self, system: System, number: float) -> System:
        """The system with the constant moved; 0 leaves it as it is."""
        protocols = dict(system.protocols)
        for protocol in self.protocols:
            protocols[protocol] = self._moved(protocols[protocol], number)
        return replace(system, protocols=protocols)

    def _moved(self, costs: ProtocolCosts, number: float) -> ProtocolCosts:
        moved: dict[str, float] = {}
        for field in self.fields:
            value = getattr(costs, field)
            if self.is_added:
                moved[field] = max(value + number * ADDED_SECONDS, 0.0)
            elif field == "efficiency":
                moved[field] = min(value * math.exp(number), 1.0)
            elif value or len(self.fields) == 1:
                moved[field] = max(value, SHORTEST) * math.exp(number)
        return replace(costs, **moved)


def applied(system: System, constants: Sequence[FittedConstant], numbers: Sequence[float]) -> System:
    """The system with all constants moved."""
    for constant, number in zip(constants, numbers, strict=True):
        system = constant.apply(system, number)
    return system


def constants_for(
    num_rows: int, sizes: Mapping[str, Sequence[float]], *, interpreted: Sequence[str], system: System
) -> tuple[FittedConstant, ...]:
    """The constants to fit: at most one for four rows, the most important first.

    ``sizes`` has the sizes of the rows of every protocol in use; ``interpreted`` are the protocols of plans that an interpreter reads.
    """
    used = sorted(sizes, key=lambda name: max(sizes[name]))
    every = _every(used, interpreted, system)
    budget = max(1, num_rows // ROWS_PER_CONSTANT)
    chosen = every if len(every) <= budget else _few(used, interpreted)
    return tuple(one for one in chosen if one.is_finite(system))[:budget]


def _few(used: Sequence[str], interpreted: Sequence[str]) -> tuple[FittedConstant, ...]:
    """Shared where possible; what a protocol gets of a link is its own, that of the largest sizes first.

    Where plans and a library's own rings ran with the protocol of the smallest sizes, its hops and an interpreter's steps can be told apart.
    """
    apart = used[:1] if interpreted and len(used) > 2 else []
    found = [
        FittedConstant(("launch_seconds",), tuple(used), is_added=True),
        FittedConstant(("efficiency",), (used[-1],)),
        FittedConstant(("latency", "step_seconds"), tuple(name for name in used if name not in apart)),
    ]
    found += [FittedConstant(("efficiency",), (name,)) for name in used[-2::-1]]
    found += [FittedConstant(("latency",), (name,)) for name in apart]
    if interpreted:
        found.append(FittedConstant(("act_seconds",), tuple(interpreted)))
    steps = [name for name in used if name != NVLS]
    found += [FittedConstant(("send_bandwidth", "receive_bandwidth"), (name,)) for name in steps[:1]]
    return tuple(found)


def _every(used: Sequence[str], interpreted: Sequence[str], system: System) -> tuple[FittedConstant, ...]:
    """Each protocol has its own."""
    found: list[FittedConstant] = []
    for name in used:
        own = ["efficiency", *([] if name == NVLS else ["latency", "send_bandwidth"])]
        own += ["step_seconds"] if system.protocols[name].step_seconds else []
        if math.isfinite(system.protocols[name].receive_bandwidth):
            own.append("receive_bandwidth")
        if name in interpreted:
            own.append("act_seconds")
        found.append(FittedConstant(("launch_seconds",), (name,), is_added=True))
        found += [FittedConstant((field,), (name,)) for field in own]
    local = tuple(name for name in used if math.isfinite(system.protocols[name].threadblock_bandwidth))
    if local:
        found.append(FittedConstant(("threadblock_bandwidth",), local))
    return tuple(found)
