"""Settings: how a communicator moves data and waits; every setting has an environment variable."""

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
    """HEMIOLA_SLOTS: how many messages a connection holds before its sender waits."""
    slot_bytes: int = 1 << 20
    """HEMIOLA_SLOT_BYTES: the size of the largest message; steps with more data run in tiles."""
    tile_bytes: int = 0
    """HEMIOLA_TILE_BYTES: the size of the messages of a tiled step; 0 lets the runtime choose."""
    workers: int = 0
    """HEMIOLA_WORKERS: how many threads run the threadblocks of a rank; 0 means one, and more on hosts with many cores."""
    spins: int = -1
    """HEMIOLA_SPINS: how often a waiting rank polls before it yields its core; -1 chooses by how many ranks share the cores."""
    yield_seconds: float = -1.0
    """HEMIOLA_YIELD_SECONDS: how long a waiting rank yields its core before it sleeps; -1 chooses by whether it has peers on
    other hosts."""
    timeout: float = 300.0
    """HEMIOLA_TIMEOUT: the number of seconds without any progress after which a call fails."""
    pin: str = "calls"
    """HEMIOLA_PIN: whether each rank is pinned to one core ``always``, ``never``, or during large ``calls`` on hosts whose
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
        """How often a rank polls before it yields. Polling pays where every rank of the host has a core of its own, and only
        without links, because polling a socket is a system call."""
        if self.spins >= 0:
            return self.spins
        if has_links:
            return 0
        return 2000 if num_local_ranks <= num_cores() else 1

    def seconds_of_yielding(self, num_local_ranks: int, *, has_links: bool) -> float:
        """How long a rank yields before it sleeps. Within a host the next message comes soon. From another host bytes come
        in packets, and each packet restarts this time, so that a slow network would keep a core busy that other ranks
        could use."""
        if self.yield_seconds >= 0:
            return self.yield_seconds
        if not has_links:
            return 2e-3
        return 50e-6 if num_local_ranks <= num_cores() else 0.0

    def crowd_seconds(self, num_local_ranks: int) -> float:
        """A yield that takes longer than this shows that another process uses the core; then a rank sleeps instead.

        Where ranks share cores the other process is mostly another rank, which should run, so the limit is large.
        """
        return 50e-6 if num_local_ranks <= num_cores() else 1.0

    def num_workers(self, num_local_ranks: int) -> int:
        """One worker, and up to four where cores would be idle otherwise."""
        if self.workers or self.pin == "always":
            return self.workers or 1
        return max(1, min(4, num_cores() // max(num_local_ranks, 1) // 2))


def num_cores() -> int:
    """The number of cores that this process may use."""
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
