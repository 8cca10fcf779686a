"""Tiling: how a call's data is cut into tiles and messages, as the executor does it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hemiola.errors import LimitError
from hemiola.ir.opcodes import TRAITS
from hemiola.ir.plan import NO_PEER, Plan
from hemiola.runtime.checking.trial import num_input_shares
from hemiola.runtime.communicator.calls import share_chunks
from hemiola.units import format_bytes

_SLOTS = 4
_LINE_BYTES = 64
_SMALL_SHARE_BYTES = 16 << 10
_LEAST_MESSAGE_BYTES = 16 << 10
_MOST_TILES = 1 << 22
_QUEUED_BYTES = 384 << 10
_MOVES = np.array([traits.sends or traits.receives for traits in TRAITS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How messages are cut and queued; the defaults are the runtime's between hosts.

    On one host it sends larger messages where a rank sends over one connection: of 512 KiB where ranks share cores, of up
    to a whole slot where each has its own and a chunk is a megabyte or more.
    """

    slots: int | None = None
    """Messages that a connection holds before its sender waits; None: as the runtime, at least what plans count on."""
    slot_bytes: int = 256 << 10
    """The largest message."""
    tile_bytes: int = 0
    """Messages smaller than a slot; 0 chooses as the runtime does."""
    element_bytes: int = 4
    num_tiles: int | None = None
    """This many tiles of equal size instead, however large that makes a message."""

    def __post_init__(self) -> None:
        leasts = {"slots": 1, "slot_bytes": 1, "tile_bytes": 0, "element_bytes": 1, "num_tiles": 1}
        for name, least in leasts.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise LimitError(f"{name} is at least {least}, but is {value}")

    def num_slots(self, plans: Iterable[Plan]) -> int:
        """The slots of every connection when these plans run."""
        if self.slots is not None:
            return self.slots
        return max([_SLOTS, *(plan.protocol.slots for plan in plans)])


AS_THE_RUNTIME = Tiling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What of a plan decides how its data is cut."""

    chunks: int
    """Of a share."""
    shares: int = 1
    """Of the largest input."""
    largest: int = 1
    """Chunks of the largest message."""
    most_sends: int = 1
    """Connections over which the busiest rank sends."""

    @staticmethod
    def of(plan: Plan) -> Cut:
        """For a plan."""
        moved = plan.steps["count"][_MOVES[plan.steps["opcode"]]]
        senders = plan.threadblocks["rank"][plan.threadblocks["send_peer"] != NO_PEER]
        return Cut(
            chunks=share_chunks(plan),
            shares=num_input_shares(plan.collective),
            largest=max(int(moved.max(initial=1)), 1),
            most_sends=max(int(np.bincount(senders).max(initial=1)) if len(senders) else 1, 1),
        )


def chunk_bytes_by_tile(plan: Plan, num_bytes: float, tiling: Tiling) -> npt.NDArray[np.float64]:
    """How many bytes of a chunk each tile has, for an input of ``num_bytes`` a rank."""
    return cut(Cut.of(plan), num_bytes, tiling)


def cut(about: Cut, num_bytes: float, tiling: Tiling) -> npt.NDArray[np.float64]:
    """The same without the plan."""
    if tiling.num_tiles is not None:
        return np.full(tiling.num_tiles, num_bytes / about.shares / about.chunks / tiling.num_tiles)
    size = tiling.element_bytes
    share = math.ceil(math.ceil(num_bytes / size) / about.shares)
    tile = _tile_elements(about, tiling)
    chunk, rest = divmod(share, about.chunks)
    if rest and share * size <= _SMALL_SHARE_BYTES:
        chunk, rest = 0, chunk + 1
    elif rest:
        rest = 1
    return np.concatenate([_pieces(chunk, tile), _pieces(rest, tile)]) * size


def _pieces(length: int, tile: int) -> npt.NDArray[np.float64]:
    whole, last = divmod(length, tile)
    if whole > _MOST_TILES:
        raise LimitError(
            f"the data is cut into {whole} tiles, and at most {_MOST_TILES} are simulated; take fewer bytes or larger tiles"
        )
    return np.append(np.full(whole, float(tile)), [float(last)] * (last > 0))


def _tile_elements(about: Cut, tiling: Tiling) -> int:
    """Elements of a chunk in a whole tile: the largest message of any rank must fit."""
    limit = min(tiling.tile_bytes, tiling.slot_bytes) or _chosen_message(about, tiling.slot_bytes)
    tile = max(limit // about.largest // tiling.element_bytes, 1)
    line = _LINE_BYTES // tiling.element_bytes
    if line and tile > line:
        tile -= tile % line
    if tile * about.largest * tiling.element_bytes > tiling.slot_bytes:
        raise LimitError(
            f"a message of {about.largest} chunks does not fit in a slot of {format_bytes(tiling.slot_bytes)};"
            " take larger slots or fewer chunks"
        )
    return tile


def _chosen_message(about: Cut, slot_bytes: int) -> int:
    """Whole slots, and smaller messages where a rank sends over many connections."""
    queued = _QUEUED_BYTES // about.most_sends // _LINE_BYTES * _LINE_BYTES
    return min(slot_bytes, max(_LEAST_MESSAGE_BYTES, queued))
