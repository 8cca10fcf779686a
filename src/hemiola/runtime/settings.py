"""Settings: how a communicator moves data; the defaults suit one machine or a few, and all are settable."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hemiola import _core
from hemiola.errors import RunError, UnitError
from hemiola.units import parse_bytes

MAX_SLOTS = 1 << 10
LINE_BYTES = _core.LINE_BYTES
PINS = ("never", "calls", "always")


@dataclass(frozen=True, slots=True)
class Settings:
    """What all ranks of a communicator must agree on, and how this rank waits."""

    slots: int = 4
    """HEMIOLA_SLOTS: messages that a connection holds before its sender waits."""
    slot_bytes: int = 1 << 20
    """HEMIOLA_SLOT_BYTES: the largest message; larger steps run in tiles."""
    tile_bytes: int = 0
    """HEMIOLA_TILE_BYTES: how large messages become; 0 chooses."""
    workers: int = 0
    """HEMIOLA_WORKERS: threads that step the threadblocks of a rank; 0 is one, and more on hosts with many cores."""
    spins: int = -1
    """HEMIOLA_SPINS: looks before a waiting rank gives its core away; -1 depends on how many ranks share the cores."""
    yield_seconds: float = -1.0
    """HEMIOLA_YIELD_SECONDS: how long a waiting rank offers its core before it sleeps; -1 depends on who it waits for."""
    timeout: float = 300.0
    """HEMIOLA_TIMEOUT: seconds without any progress after which a run fails."""
    pin: str = "calls"
    """HEMIOLA_PIN: keep each rank of a host to one of its cores ``always``, ``never``, or during large ``calls`` where
    ranks share the cores evenly."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("slots", 1, MAX_SLOTS),
            ("slot_bytes", LINE_BYTES, 1 << 30),
            ("tile_bytes", 0, 1 << 30),
            ("workers", 0, 256),
            ("spins", -1, 1 << 30),
            ("yield_seconds", -1, 3600),
            ("timeout", 0.001, 1e9),
        ):
            if not least <= getattr(self, name) <= most:
                raise RunError(f"{name} is between {least} and {most}, but is {getattr(self, name)}")
        if self.pin not in PINS:
            raise RunError(f"pin is one of {', '.join(PINS)}, but is {self.pin!r:.40}")
        if self.slot_bytes % LINE_BYTES:
            raise RunError(f"slot_bytes is a multiple of {LINE_BYTES}, but is {self.slot_bytes}")

    @staticmethod
    def from_environment(env: Mapping[str, str] = os.environ) -> Settings:
        """The defaults, changed by the variables that are set."""
        changes: dict[str, Any] = {}
        for field in fields(Settings):
            variable = f"HEMIOLA_{field.name.upper()}"
            if variable in env:
                try:
                    changes[field.name] = _READERS[field.name](env[variable])
                except (ValueError, UnitError):
                    known = f"; it is one of {', '.join(PINS)}" if field.name == "pin" else ""
                    raise RunError(f"{variable} cannot be read: {env[variable][:40]!r}{known}") from None
        return replace(Settings(), **changes)

    def num_spins(self, num_local_ranks: int, *, has_links: bool) -> int:
        """Spinning pays while every rank of the host has a core of its own, and no look is a system call."""
        if self.spins >= 0:
            return self.spins
        if has_links:
            return 0
        return 2000 if num_local_ranks <= num_cores() else 1

    def seconds_of_yielding(self, num_local_ranks: int, *, has_links: bool) -> float:
        """On a host the next message is near; from another host bytes come one packet at a time, and each would begin
        the time anew, so that a slow network keeps cores busy which others on this host could use."""
        if self.yield_seconds >= 0:
            return self.yield_seconds
        if not has_links:
            return 2e-3
        return 50e-6 if num_local_ranks <= num_cores() else 0.0

    def crowd_seconds(self, num_local_ranks: int) -> float:
        """How long a yield takes at least if somebody else has worked meanwhile, and a rank should rather sleep.

        Where ranks share cores, it is the other ranks that work, and yielding to them is what is wanted.
        """
        return 50e-6 if num_local_ranks <= num_cores() else 1.0

    def num_workers(self, num_local_ranks: int) -> int:
        """One worker, and up to four where cores would be idle otherwise."""
        if self.workers or self.pin == "always":
            return self.workers or 1
        return max(1, min(4, num_cores() // max(num_local_ranks, 1) // 2))


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _pin(text: str) -> str:
    return PINS[PINS.index(text)]


_READERS: dict[str, Callable[[str], object]] = {
    "slots": int,
    "slot_bytes": parse_bytes,
    "tile_bytes": parse_bytes,
    "workers": int,
    "spins": int,
    "yield_seconds": float,
    "timeout": float,
    "pin": _pin,
}
